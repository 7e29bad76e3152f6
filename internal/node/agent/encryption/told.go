// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"net/netip"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/security"
)

// telling is what others are told of a sender's generations. They have programmed it when they were told of it for a while.
type telling struct {
	before, now int64
	since       time.Time
}

// hear notes what others are told now. What an agent hears first, others may know from before it, or not.
func (t *telling) hear(r *Reconciler, said int64) {
	if said == t.now {
		return
	}
	t.before, t.now, t.since = t.value(r), said, r.Now()
}

// value is what they take by now.
func (t *telling) value(r *Reconciler) int64 {
	if r.Now().Sub(t.since) < r.Settle {
		return min(t.before, t.now)
	}
	return t.now
}

// said is the least that is said of the node on any network where something is.
func (w *wants) said(sender security.Sender) (least int64) {
	for _, own := range w.told {
		if own == nil {
			continue
		}
		if said := generationOf(sender, &own.Sender); said > 0 && (least == 0 || said < least) {
			least = said
		}
	}
	return least
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

// hear notes which keys of the node others have been told of.
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
	for sender, telling := range r.settled {
		telling.hear(r, w.said(sender))
	}
}

// settles tells whether others may not accept the node's key yet.
func (r *Reconciler) settles() bool {
	if r.ring == nil {
		return false
	}
	since := r.heard[r.ring.Current().Public]
	return !since.IsZero() && r.Now().Sub(since) < r.Settle
}
