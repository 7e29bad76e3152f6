// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"

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
