// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// Collect removes everything of the network that is not among the attachments that the runtime calls valid.
func Collect(ctx context.Context, s *Spec, valid map[types.GCAttachment]bool) error {
	node, store, err := s.open()
	if err != nil {
		return err
	}
	defer node.Close()
	ctx = context.WithoutCancel(ctx)
	if s.IsOfLinks() {
		return s.collectSandboxes(ctx, node, store, valid)
	}
	known, err := knownAttachments(s.Network, node, store)
	if err != nil {
		return err
	}
	errCards := s.giveBackStrays(valid)
	all := errCards
	for key, port := range known {
		if !valid[key] {
			all = errors.Join(all, s.collect(ctx, node, store, &port))
		}
	}
	all = errors.Join(all, s.forgetStrays(ctx, node, store), node.Sweep(ctx, &s.Overlay), sweepRings())
	if errCards != nil {
		return all // the IPAM plugin would free the addresses of their machines
	}
	return errors.Join(all, s.IPAM.Run(ctx, "GC", &s.Record))
}

// knownAttachments are those of a network in the records and in the kernel.
func knownAttachments(network string, node *overlay.Node, store recordStore) (map[types.GCAttachment]overlay.Found, error) {
	recorded, err := store.list(network)
	if err != nil {
		return nil, err
	}
	found, err := node.Attachments()
	if err != nil {
		return nil, err
	}
	known := map[types.GCAttachment]overlay.Found{}
	for _, attachment := range recorded {
		known[types.GCAttachment{ContainerID: attachment.ContainerID, IfName: attachment.Interface}] = overlay.Found{Attachment: attachment}
	}
	for _, port := range found {
		if port.Network == network {
			known[types.GCAttachment{ContainerID: port.ContainerID, IfName: port.Interface}] = port
		}
	}
	return known, nil
}

// collect does what DEL would.
func (s *Spec) collect(ctx context.Context, node *overlay.Node, store recordStore, port *overlay.Found) error {
	stale := *s
	stale.Attachment = port.Attachment
	if r := store.read(&port.Attachment); r != nil {
		stale.Attachment, stale.Netns, stale.Args = r.Attachment, r.Netns, r.Args
	} else if noted := (Record{}); noted.takeNote(port.Note) == nil {
		stale.Device, stale.Netns = noted.Device, netnsPath(port.NetnsID)
	}
	if stale.Identity == "" {
		stale.Identity = stale.ContainerID
	}
	stale.CompleteRecord()
	return stale.detach(ctx, node, store)
}

// forgetStrays makes ktsnd forget endpoints of the network whose pod is gone and that nobody remembers: those of
// an ADD whose record was lost.
func (s *Spec) forgetStrays(ctx context.Context, node *overlay.Node, store recordStore) error {
	daemon, err := dialDaemon(ctx, s.ControlSocket)
	if ended(err) || (err == nil && daemon == nil) {
		return nil
	}
	if err != nil {
		return err
	}
	defer daemon.close()
	endpoints, err := daemon.Endpoints(ctx)
	if err != nil {
		return err
	}
	known, err := s.knownIdentities(node, store)
	if err != nil {
		return err
	}
	var all error
	for _, endpoint := range endpoints {
		_, errStat := os.Stat(endpoint.Netns)
		if endpoint.VNI == s.Overlay.VNI && errors.Is(errStat, fs.ErrNotExist) && !known[[2]string{endpoint.Identity, endpoint.Interface}] {
			all = errors.Join(all, daemon.EndpointDel(ctx, endpoint.Identity, endpoint.Interface))
		}
	}
	return all
}

// knownIdentities are the pairs of identity and interface of all networks.
func (s *Spec) knownIdentities(node *overlay.Node, store recordStore) (map[[2]string]bool, error) {
	known := map[[2]string]bool{}
	made, err := store.all()
	if err != nil {
		return nil, err
	}
	for _, attachment := range made {
		known[[2]string{attachment.Identity, attachment.Interface}] = true
	}
	found, err := node.Attachments()
	if err != nil {
		return nil, err
	}
	for _, port := range found {
		known[[2]string{port.Identity, port.Interface}] = true
	}
	return known, nil
}
