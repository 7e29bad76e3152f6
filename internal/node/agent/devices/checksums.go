// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// DisableChecksumOffload keeps the offload of transmit checksums disabled for all tunnels of package overlay until ctx ends, also for those
// that are created later, and where another program enables it. It works in the network namespace of the calling thread.
func DisableChecksumOffload(ctx context.Context, log *slog.Logger) error {
	for {
		if err := watchTunnels(ctx, log); err != nil {
			log.Warn("checksum offload of new tunnels is disabled later", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchAgain):
		}
	}
}

// watchTunnels begins with the existing tunnels. The kernel reports each change of a device's features.
func watchTunnels(ctx context.Context, log *slog.Logger) error {
	updates, done, failed := make(chan netlink.LinkUpdate, 64), make(chan struct{}), make(chan error, 1)
	defer close(done)
	options := netlink.LinkSubscribeOptions{ListExisting: true, ErrorCallback: func(err error) {
		select {
		case failed <- err:
		default:
		}
	}}
	if err := netlink.LinkSubscribeWithOptions(updates, done, options); err != nil {
		return fmt.Errorf("watch tunnels: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("watch tunnels: %w", err)
		case update, open := <-updates:
			if !open {
				return errors.New("watch tunnels: the kernel sends no more changes")
			}
			link := update.Link
			if update.Header.Type != unix.RTM_NEWLINK || link.Type() != "vxlan" || link.Attrs().Group != overlay.LinkGroup || !netdev.OffloadsChecksums(link.Attrs().Name) {
				continue
			}
			if err := netdev.DisableChecksumOffload(link.Attrs().Name); err != nil && !errors.Is(err, unix.ENODEV) {
				log.Warn("packets of a tunnel may have wrong checksums", "error", err)
			}
		}
	}
}
