// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"net/netip"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
)

// silentAfter is how long what others are told of this node's generations waits for one that hears nothing of them. It is shorter than a
// peer's last key is accepted, and longer than operators and hubs need.
const silentAfter = 20 * time.Second

// telling is what a peer is told of a sender's generations. It has programmed them when it was told of them for a while.
type telling struct {
	before, now int64
	since       time.Time
}

// hear notes what the peer is told now.
func (t *telling) hear(r *Reconciler, said int64) (changed bool) {
	if said == t.now {
		return false
	}
	t.before, t.now, t.since = t.value(r), said, r.Now()
	return true
}

// value is what it takes by now.
func (t *telling) value(r *Reconciler) int64 {
	if r.Now().Sub(t.since) < r.Settle {
		return min(t.before, t.now)
	}
	return t.now
}

// hearing is what one peer has been told of this node. Each has its own: one that hears nothing keeps nobody else waiting.
type hearing struct {
	senders map[security.Sender]*telling
	// missing is since when the peer has not been told of what the node announces, nor of anything else; the zero value where it has been.
	missing time.Time
	// gone tells that it is no peer now: what it hears says nothing of others.
	gone bool
}

// senders are those of a node.
var senders = []security.Sender{security.Kernel, security.Ktsnd}

// taken is what the peer at an address takes of a sender by now, 0 where it is told nothing.
func (r *Reconciler) taken(address netip.Addr, sender security.Sender) int64 {
	if one := r.hearings[address]; one != nil {
		return one.senders[sender].value(r)
	}
	return 0
}

// silent are the peers that have not been told for so long, while others have been, that these do not wait for them. Where nobody is told,
// as while the API server does not answer, nobody is silent.
func (r *Reconciler) silent() map[netip.Addr]bool {
	silent, heard := map[netip.Addr]bool{}, false
	for address, one := range r.hearings {
		if one.gone {
			continue
		}
		heard = heard || one.missing.IsZero()
		if !one.missing.IsZero() && r.Now().Sub(one.missing) >= silentAfter {
			silent[address] = true
		}
	}
	if !heard {
		return nil
	}
	return silent
}

// sendsBy tells whether kernel or ktsnd may still send by a key of the node.
func (r *Reconciler) sendsBy(key security.Public) bool {
	for _, all := range []map[netip.Addr]*handed{r.sent, r.told, r.former} {
		for _, one := range all {
			if one.own == key {
				return true
			}
		}
	}
	return false
}

// hear notes which keys and generations of the node others have been told of.
func (r *Reconciler) hear(w *wants) {
	known := map[security.Public]time.Time{}
	for _, own := range w.told {
		for i := 0; own != nil && i < len(own.Keys); i++ {
			since := r.heard[own.Keys[i]]
			if since.IsZero() {
				since = r.Now()
			}
			known[own.Keys[i]] = since
		}
	}
	if len(known) > 0 {
		r.heard = known
	}
	r.hearFirst(w)
	for address := range w.peers {
		r.hearOf(address, w.own[address])
	}
	for address, one := range r.hearings {
		one.gone = w.peers[address] == nil
		if one.gone && !w.kept[address] && w.complete {
			delete(r.hearings, address)
		}
	}
}

// hearFirst notes since when anybody is told of generations: a peer that is new knows them no later than this node.
func (r *Reconciler) hearFirst(w *wants) {
	first := map[said]time.Time{}
	for _, own := range w.told {
		for _, sender := range senders {
			if own == nil {
				continue
			}
			at := said{sender, generationOf(sender, &own.Sender)}
			if first[at] = r.first[at]; first[at].IsZero() {
				first[at] = r.Now()
			}
		}
	}
	r.first = first
}

// said is what somebody is told of a sender.
type said struct {
	sender     security.Sender
	generation int64
}

// hearOf notes what one peer is told of the node.
func (r *Reconciler) hearOf(address netip.Addr, own *Trusted) {
	told := v1alpha1.SenderGenerations{}
	if own != nil {
		told = own.Sender
	}
	one, changed := r.hearings[address], false
	if one == nil {
		one = &hearing{senders: map[security.Sender]*telling{}}
		for _, sender := range senders {
			generation := generationOf(sender, &told)
			one.senders[sender] = &telling{now: generation, since: r.first[said{sender, generation}]}
		}
		r.hearings[address] = one
	}
	for _, sender := range senders {
		changed = one.senders[sender].hear(r, generationOf(sender, &told)) || changed
	}
	switch {
	case own != nil && slices.Contains(own.Keys, r.ring.Current().Public) && !r.isAhead(&told):
		one.missing = time.Time{}
	case changed || one.missing.IsZero():
		one.missing = r.Now()
	}
}

// isAhead tells whether the node announces more than this.
func (r *Reconciler) isAhead(told *v1alpha1.SenderGenerations) bool {
	return slices.ContainsFunc(senders, func(sender security.Sender) bool {
		return generationOf(sender, r.generations) > generationOf(sender, told)
	})
}

// settles tells whether others may not accept the node's key yet.
func (r *Reconciler) settles() bool {
	if r.ring == nil {
		return false
	}
	since := r.heard[r.ring.Current().Public]
	return !since.IsZero() && r.Now().Sub(since) < r.Settle
}

// waitsForPeer tells whether a peer may not take yet what it has been told lately.
func (r *Reconciler) waitsForPeer() bool {
	for _, one := range r.hearings {
		for _, sender := range senders {
			if one.senders[sender].value(r) != one.senders[sender].now {
				return true
			}
		}
	}
	return false
}
