// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// del detaches a container. It does not stop at what fails, and what is gone already is no error.
func del(ctx context.Context, r *request) error {
	node, records, err := r.open()
	if err != nil {
		return err
	}
	defer node.Close()
	// An interrupted DEL would leave more to do than one that goes on.
	ctx = context.WithoutCancel(ctx)
	err = r.takeAway(ctx, node, records)
	if cutOff(err) {
		// ktsnd has ended meanwhile. Another one answers, or none runs; runtimes do not always ask again.
		err = r.takeAway(ctx, node, records)
	}
	return err
}

// takeAway removes what the request asks for, which may be done again.
func (r *request) takeAway(ctx context.Context, node *overlay.Node, records records) error {
	switch {
	case r.Links:
		return r.removeSandbox(ctx, node, records)
	case r.Link != nil:
		return r.unplugLink(ctx, node, records)
	}
	return r.detach(ctx, node, records)
}

// detach removes all of an attachment. The record goes last, and stays if something else could not be removed.
func (r *request) detach(ctx context.Context, node *overlay.Node, records records) error {
	made := records.read(&r.Attachment)
	if made == nil {
		made = r.record()
	}
	if !made.hasPort() {
		if err := made.giveBackCard(); err != nil {
			return err // the machine may still send by it, from the pod's address
		}
	}
	all := errors.Join(made.removeDevice(), unregister(ctx, made, records))
	fault.Point("unregistered")
	errUnplug := node.Unplug(ctx, made.network(), &r.Attachment)
	fault.Point("unplugged")
	all = errors.Join(all, errUnplug, made.detachFromKata(records), sweepRings())
	if errUnplug == nil {
		// Not before: whoever gets the address next may be on this bridge.
		all = errors.Join(all, r.ipam(ctx, "DEL"))
	}
	fault.Point("unaddressed")
	if all != nil {
		return all
	}
	return records.remove(&r.Attachment)
}

// unregister makes ktsnd forget the attachment. A ktsnd that does not run knows none.
//
// A pod gets another sandbox when its first one dies, with the same identity and interface. The runtime deletes the first one
// again when it collects what is left, and what ktsnd knows by then is the other sandbox's interface.
func unregister(ctx context.Context, made *record, records records) error {
	daemon, err := dialDaemon(ctx, made.ControlSocket)
	if err != nil && !ended(err) {
		return err
	}
	defer daemon.close()
	replaced, err := records.replaced(made)
	if err != nil {
		return err
	}
	if daemon != nil && !replaced {
		if err := daemon.EndpointDel(ctx, made.Identity, made.Interface); err != nil {
			return err
		}
	}
	fault.Point("endpoint-removed")
	if made.Socket == "" {
		return nil
	}
	return removeUse(ctx, daemon, records, made)
}

// removeUse removes the pod's socket when this was the last attachment that used it.
func removeUse(ctx context.Context, daemon *daemon, records records, made *record) error {
	last, err := records.releaseSocket(&made.Attachment)
	fault.Point("socket-released")
	if err != nil || !last {
		return err
	}
	return daemon.removeSocket(ctx, made.Identity, made.Socket)
}
