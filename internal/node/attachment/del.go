// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// Delete detaches a container, unplugs a link, or forgets the sandbox of a pod with its links. It continues after errors. Deleting
// something that is already gone is not an error.
func Delete(ctx context.Context, s *Spec) error {
	node, store, err := s.open()
	if err != nil {
		return err
	}
	defer node.Close()
	// An interrupted DEL would leave more to do than a completed one.
	ctx = context.WithoutCancel(ctx)
	remove := func() error {
		switch {
		case s.Sandbox:
			return forgetSandbox(ctx, node, store, &s.Attachment)
		case s.Link != nil:
			return store.readOr(&s.Record).unplugLink(ctx, node, store)
		}
		return s.detach(ctx, node, store)
	}
	if err = remove(); cutOff(err) {
		// ktsnd has ended. Another one answers now, or none runs; not every runtime repeats DEL.
		err = remove()
	}
	return err
}

// detach removes everything of an attachment. The record is removed last, and stays if something else could not be removed.
func (s *Spec) detach(ctx context.Context, node *overlay.Node, store recordStore) error {
	r := store.readOr(&s.Record)
	if !r.hasPort() {
		if err := r.giveBackCard(); err != nil {
			return err // the machine may still send through it, from the pod's address
		}
	}
	all := errors.Join(r.removeDevice(), unregister(ctx, r, store))
	fault.Point("unregistered")
	errUnplug := node.Unplug(ctx, r.network(), &s.Attachment)
	fault.Point("unplugged")
	all = errors.Join(all, errUnplug, r.detachFromKata(store), sweepRings())
	if errUnplug == nil {
		// Not earlier: the next pod with the address may be on this bridge.
		all = errors.Join(all, s.IPAM.Run(ctx, "DEL", &s.Record))
	}
	fault.Point("unaddressed")
	if all != nil {
		return all
	}
	return store.remove(&s.Attachment)
}

// unregister removes the attachment from ktsnd. If ktsnd does not run, there is nothing to remove.
//
// A pod gets another sandbox when its first one dies, with the same identity and interface. The runtime deletes the first one
// again when it collects garbage; ktsnd then knows the interface of the second sandbox, which must stay.
func unregister(ctx context.Context, r *Record, store recordStore) error {
	daemon, err := dialDaemon(ctx, r.ControlSocket)
	if err != nil && !ended(err) {
		return err
	}
	defer daemon.close()
	replaced, err := store.replaced(r)
	if err != nil {
		return err
	}
	if daemon != nil && !replaced {
		if err := daemon.EndpointDel(ctx, r.Identity, r.Interface); err != nil {
			return err
		}
	}
	fault.Point("endpoint-removed")
	if r.Socket == "" {
		return nil
	}
	return removeUse(ctx, daemon, store, r)
}

// removeUse removes the pod's socket when this was the last attachment that used it.
func removeUse(ctx context.Context, daemon *daemon, store recordStore, r *Record) error {
	last, err := store.releaseSocket(&r.Attachment)
	fault.Point("socket-released")
	if err != nil || !last {
		return err
	}
	return daemon.removeSocket(ctx, r.Identity, r.Socket)
}

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

// knownAttachments returns the attachments of a network in the records and in the kernel.
func knownAttachments(network string, node *overlay.Node, store recordStore) (map[types.GCAttachment]overlay.Found, error) {
	recorded, err := store.list(network)
	if err != nil {
		return nil, err
	}
	ports, err := node.Attachments()
	if err != nil {
		return nil, err
	}
	known := map[types.GCAttachment]overlay.Found{}
	for _, attachment := range recorded {
		known[types.GCAttachment{ContainerID: attachment.ContainerID, IfName: attachment.Interface}] = overlay.Found{Attachment: attachment}
	}
	for _, port := range ports {
		if port.Network == network {
			known[types.GCAttachment{ContainerID: port.ContainerID, IfName: port.Interface}] = port
		}
	}
	return known, nil
}

// collect does what DEL would do.
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

// forgetStrays removes endpoints of the network from ktsnd whose pod is gone and that have neither record nor port:
// those of an ADD whose record was lost.
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

// knownIdentities returns the pairs of identity and interface of all networks.
func (s *Spec) knownIdentities(node *overlay.Node, store recordStore) (map[[2]string]bool, error) {
	known := map[[2]string]bool{}
	records, err := store.all()
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		known[[2]string{r.Identity, r.Interface}] = true
	}
	ports, err := node.Attachments()
	if err != nil {
		return nil, err
	}
	for _, port := range ports {
		known[[2]string{port.Identity, port.Interface}] = true
	}
	return known, nil
}
