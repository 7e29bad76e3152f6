// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"errors"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// unplugLink takes a link out of a pod. It does not stop at what fails, and what is gone already is no error.
func (r *request) unplugLink(ctx context.Context, node *overlay.Node, records records) error {
	made := records.read(&r.Attachment)
	if made == nil {
		made = r.record()
	}
	return made.unplugLink(ctx, node, records)
}

// unplugLink removes all of a link's end on this node. The record goes last, and stays if something else could not be removed.
func (r *record) unplugLink(ctx context.Context, node *overlay.Node, records records) error {
	all := unregister(ctx, r, records)
	fault.Point("unregistered")
	all = errors.Join(all, node.Unplug(ctx, r.network(), &r.Attachment))
	fault.Point("unplugged")
	all = errors.Join(all, r.undoForwarding(records), r.forgetPeer(ctx, node))
	fault.Point("link-peer-forgotten")
	if all != nil {
		return all
	}
	return records.remove(&r.Attachment)
}

// forgetPeer forgets the node of the peer.
func (r *record) forgetPeer(ctx context.Context, node *overlay.Node) error {
	daemon, err := dialDaemon(ctx, r.ControlSocket)
	if err != nil && !ended(err) {
		return err
	}
	defer daemon.close()
	return node.ForgetLink(ctx, r.network(), daemon.timed())
}
