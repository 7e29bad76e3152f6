// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// Names of configurations, which no network may have.
const (
	// SandboxNetwork is the one by which runtimes have the sandboxes of pods with links remembered.
	SandboxNetwork = "kubernetsn-links"
	// LinkNetwork is the one by which links are plugged.
	LinkNetwork = "kubernetsn-link"
)

// addSandbox remembers a sandbox.
func addSandbox(s *Spec) error {
	netns, err := s.openNetns()
	if err != nil {
		return err
	}
	defer netns.Close()
	return recordStore{s.StateDir}.write(&s.Record)
}

// forgetSandbox unplugs all links of the sandbox, whoever plugged them, and removes its record.
func forgetSandbox(ctx context.Context, node *overlay.Node, store recordStore, sandbox *overlay.Attachment) error {
	links, err := store.linksOf(sandbox.ContainerID)
	if err != nil {
		return err
	}
	var all error
	for i, err := range unplugLinks(ctx, node, store, links) {
		if err != nil {
			all = errors.Join(all, fmt.Errorf("link %s: %w", links[i].Interface, err))
		}
	}
	if all != nil {
		return all
	}
	return store.remove(sandbox)
}

// CheckLinks compares a link, or all links of a sandbox, with what Add made.
func CheckLinks(ctx context.Context, s *Spec) error {
	netns, err := s.openNetns()
	if err != nil {
		return err
	}
	defer netns.Close()
	node, store, err := s.open()
	if err != nil {
		return err
	}
	defer node.Close()
	if s.Sandbox && store.read(&s.Attachment) == nil {
		return coded(CodeDiffers, fmt.Errorf("nothing is known of the sandbox of container %s; make the pod anew", s.ContainerID))
	}
	links, err := store.linksOf(s.ContainerID)
	if err != nil {
		return err
	}
	var differs error
	for _, link := range links {
		if !s.Sandbox && link.Interface != s.Interface {
			continue
		}
		if err := link.checkLink(ctx, node); errors.Is(err, errKtsndSilent) {
			return err
		} else if err != nil {
			differs = errors.Join(differs, fmt.Errorf("link %s: %w", link.Interface, err))
		}
	}
	return coded(CodeDiffers, differs)
}

// collectSandboxes forgets the sandboxes that the runtime does not call valid, and unplugs the links of containers that have none.
func (s *Spec) collectSandboxes(ctx context.Context, node *overlay.Node, store recordStore, valid map[types.GCAttachment]bool) error {
	containers := map[string]bool{}
	for attachment := range valid {
		containers[attachment.ContainerID] = true
	}
	known, err := knownAttachments(s.Network, node, store)
	if err != nil {
		return err
	}
	var all error
	for key, found := range known {
		if !valid[key] {
			all = errors.Join(all, forgetSandbox(ctx, node, store, &found.Attachment))
		}
	}
	links, err := knownAttachments(LinkNetwork, node, store)
	if err != nil {
		return errors.Join(all, err)
	}
	var left []*Record
	for key, found := range links {
		if !containers[key.ContainerID] {
			left = append(left, foundLink(store, &found, s.ControlSocket))
		}
	}
	return errors.Join(all, errors.Join(unplugLinks(ctx, node, store, left)...))
}

// foundLink is a link that may have no record.
func foundLink(store recordStore, found *overlay.Found, controlSocket string) *Record {
	made := store.read(&found.Attachment)
	if made == nil {
		made = &Record{
			Version: recordVersion, Attachment: found.Attachment, VNI: found.VNI, Bridge: found.Bridge, Tunnel: found.Tunnel,
			ControlSocket: controlSocket,
		}
	}
	return made
}

// statusOfLinks tells whether links could be plugged.
func (s *Spec) statusOfLinks(ctx context.Context) error {
	daemon, err := dialDaemon(ctx, s.ControlSocket)
	if err != nil {
		return unavailable(false, err)
	}
	daemon.close()
	if err := s.checkStateDir(); err != nil {
		return unavailable(false, err)
	}
	return nil
}
