// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"slices"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// unplugLink removes all of a link's end on this node. The record goes last, and stays if something else could not be removed.
func (r *Record) unplugLink(ctx context.Context, node *overlay.Node, store recordStore) error {
	return unplugTogether(ctx, node, store, []*Record{r})[0]
}

// mostTogether bounds for how long others that change the node's networks have to wait.
const mostTogether = 32

// unplugLinks is unplugLink for many, whose devices go together. Each has an error of its own.
func unplugLinks(ctx context.Context, node *overlay.Node, store recordStore, links []*Record) (failed []error) {
	for some := range slices.Chunk(links, mostTogether) {
		failed = append(failed, unplugTogether(ctx, node, store, some)...)
	}
	return failed
}

func unplugTogether(ctx context.Context, node *overlay.Node, store recordStore, links []*Record) []error {
	failed, leaving := make([]error, len(links)), make([]overlay.Leaving, len(links))
	for i, r := range links {
		failed[i] = unregister(ctx, r, store)
		leaving[i] = overlay.Leaving{Network: r.network(), Attachment: &r.Attachment}
	}
	fault.Point("unregistered")
	for i, err := range node.UnplugAll(ctx, leaving) {
		failed[i] = errors.Join(failed[i], err)
	}
	fault.Point("unplugged")
	for i, r := range links { // one after the other: the last that forwards gives the pod its settings back
		failed[i] = errors.Join(failed[i], r.undoForwarding(store), r.forgetPeer(ctx, node))
		fault.Point("link-peer-forgotten")
		if failed[i] == nil {
			failed[i] = store.remove(&r.Attachment)
		}
	}
	return failed
}

// forgetPeer forgets the node of the peer.
func (r *Record) forgetPeer(ctx context.Context, node *overlay.Node) error {
	daemon, err := dialDaemon(ctx, r.ControlSocket)
	if err != nil && !ended(err) {
		return err
	}
	defer daemon.close()
	return node.ForgetLink(ctx, r.network(), daemon.timed())
}
