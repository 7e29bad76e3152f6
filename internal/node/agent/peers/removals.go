// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/repeat"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// removals returns the peers to remove: those that have not been planned for a while, or whose subnets belong to
// another peer now.
func (r *Reconciler) removals(plan *plan, have map[key]observed) []overlay.Change {
	now, unplanned := r.Now(), map[key]time.Time{}
	if r.startedAt.IsZero() {
		r.startedAt = now
	}
	taken := sync.OnceValue(plan.subnets)
	var removed []overlay.Change
	for at, peer := range have {
		if _, keep := plan.peers[at]; keep || !plan.certain(at.vni) {
			continue
		}
		since, known := r.unplanned[at]
		if !known {
			since = now
		}
		if now.Sub(since) >= r.Linger && now.Sub(r.startedAt) >= r.StartupGrace || peer.overlaps(at.vni, taken()) {
			removed = append(removed, overlay.Change{Peer: control.Peer{VNI: at.vni, Address: at.address}, Gone: true})
		} else {
			unplanned[at] = since
		}
	}
	r.unplanned = unplanned
	return removed
}

// nextRemoval returns the time until the first unplanned peer is removed.
func (r *Reconciler) nextRemoval() time.Duration {
	first := slices.MinFunc(slices.Collect(maps.Values(r.unplanned)), time.Time.Compare).Add(r.Linger)
	if kept := r.startedAt.Add(r.StartupGrace); kept.After(first) {
		first = kept
	}
	if left := first.Sub(r.Now()); left > 0 {
		return left
	}
	return repeat.AfterFailure // a removal is overdue
}

// subnet is a subnet of a network.
type subnet struct {
	vni    uint32
	prefix netip.Prefix
}

// subnets returns the subnets of all planned peers.
func (p *plan) subnets() map[subnet]bool {
	all := map[subnet]bool{}
	for at, peer := range p.peers {
		for _, prefix := range peer.Subnets {
			all[subnet{at.vni, prefix}] = true
		}
	}
	return all
}

// overlaps reports whether the peer has one of these subnets in ktsnd.
func (k *observed) overlaps(vni uint32, taken map[subnet]bool) bool {
	return k.inKtsnd != nil && slices.ContainsFunc(k.inKtsnd.Subnets, func(prefix netip.Prefix) bool { return taken[subnet{vni, prefix}] })
}
