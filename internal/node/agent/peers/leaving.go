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

// leaving are the peers to forget: those that are not planned, and have not been for a while, or whose subnets are another's now.
func (r *Reconciler) leaving(plan *plan, have map[key]known) []overlay.Change {
	now, unplanned := r.Now(), map[key]time.Time{}
	if r.began.IsZero() {
		r.began = now
	}
	taken := sync.OnceValue(plan.subnets)
	var gone []overlay.Change
	for at, one := range have {
		if _, keep := plan.peers[at]; keep || !plan.sure(at.vni) {
			continue
		}
		since, known := r.unplanned[at]
		if !known {
			since = now
		}
		if now.Sub(since) >= r.Linger && now.Sub(r.began) >= r.Patience || one.overlaps(at.vni, taken()) {
			gone = append(gone, overlay.Change{Peer: control.Peer{VNI: at.vni, Address: at.address}, Gone: true})
		} else {
			unplanned[at] = since
		}
	}
	r.unplanned = unplanned
	return gone
}

// nextGoes is for how long the first of the peers stays that are not planned any more.
func (r *Reconciler) nextGoes() time.Duration {
	first := slices.MinFunc(slices.Collect(maps.Values(r.unplanned)), time.Time.Compare).Add(r.Linger)
	if kept := r.began.Add(r.Patience); kept.After(first) {
		first = kept
	}
	if left := first.Sub(r.Now()); left > 0 {
		return left
	}
	return repeat.AfterFailure // one should be gone already, and could not be looked at
}

// subnet is a part of a network.
type subnet struct {
	vni    uint32
	prefix netip.Prefix
}

// subnets are those of all planned peers.
func (p *plan) subnets() map[subnet]bool {
	all := map[subnet]bool{}
	for at, peer := range p.peers {
		for _, prefix := range peer.Subnets {
			all[subnet{at.vni, prefix}] = true
		}
	}
	return all
}

// overlaps tells whether ktsnd was told of a subnet that is among these.
func (k *known) overlaps(vni uint32, taken map[subnet]bool) bool {
	return k.told != nil && slices.ContainsFunc(k.told.Subnets, func(prefix netip.Prefix) bool { return taken[subnet{vni, prefix}] })
}
