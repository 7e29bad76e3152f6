// SPDX-License-Identifier: Apache-2.0

package linkledger

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

const (
	// ReleasedFor is for how long numbers and addresses of a link that is gone are not used again: nodes remove it a little later.
	ReleasedFor = 30 * time.Second
	// clientFor is for how long it is known whose link has gone: a little longer, so that its next link can have what it leaves.
	clientFor = 2 * ReleasedFor
	// cacheKnowsAfter is when the cache knows what was written, if that is still so.
	cacheKnowsAfter = 30 * time.Second
)

// Ledger knows the links as the API server does after what was just written, of which the cache may not know yet. Otherwise a link's number
// could be given to another.
type Ledger struct {
	now   func() time.Time
	store *Store
	// written are links that were made or changed, until the cache knows.
	written map[types.UID]*writtenLink
	// deleted are links that the cache may still have.
	deleted map[types.UID]bool
	// last are those of the last look, released what links had that have gone since, by the UIDs of the links.
	last     map[types.UID]v1alpha1.TSNLink
	released map[types.UID]release
	// loaded tells whether released has what was stored before, unsaved whether it has what is not stored.
	loaded, unsaved bool
}

type writtenLink struct {
	link v1alpha1.TSNLink
	at   time.Time
}

// New makes a ledger that keeps what was released in a store.
func New(store *Store, now func() time.Time) *Ledger {
	return &Ledger{now: now, store: store, written: map[types.UID]*writtenLink{}, deleted: map[types.UID]bool{},
		last: map[types.UID]v1alpha1.TSNLink{}, released: map[types.UID]release{}}
}

// Wrote says that a link was made or changed.
func (l *Ledger) Wrote(link *v1alpha1.TSNLink) {
	l.written[link.UID] = &writtenLink{*link, l.now()}
}

// Removed says that a link was deleted.
func (l *Ledger) Removed(uid types.UID) {
	l.deleted[uid] = true
	delete(l.written, uid)
}

// look returns the links that there are, by what the cache has.
func (l *Ledger) look(cached []v1alpha1.TSNLink) []v1alpha1.TSNLink {
	var links []v1alpha1.TSNLink
	inCache := make(map[types.UID]bool, len(cached))
	for i := range cached {
		link := &cached[i]
		inCache[link.UID] = true
		if l.deleted[link.UID] {
			continue
		}
		ours := l.written[link.UID]
		switch {
		case ours == nil:
			links = append(links, *link)
		case link.Generation >= ours.link.Generation:
			delete(l.written, link.UID)
			links = append(links, *link)
		default:
			newer := ours.link
			newer.Status = link.Status
			links = append(links, newer)
		}
	}
	maps.DeleteFunc(l.deleted, func(uid types.UID, _ bool) bool { return !inCache[uid] })
	for uid, ours := range l.written {
		switch {
		case inCache[uid]:
		case l.now().Sub(ours.at) < cacheKnowsAfter:
			links = append(links, ours.link)
		default: // somebody else has deleted it
			delete(l.written, uid)
		}
	}
	l.compare(links)
	return links
}

// compare finds the links that have gone since the last look.
func (l *Ledger) compare(links []v1alpha1.TSNLink) {
	are := make(map[types.UID]v1alpha1.TSNLink, len(links))
	for i := range links {
		are[links[i].UID] = links[i]
	}
	for uid, link := range l.last {
		if _, still := are[uid]; !still {
			l.release(&link)
		}
	}
	l.last = are
	maps.DeleteFunc(l.released, func(_ types.UID, r release) bool { return l.now().Sub(r.At) >= clientFor })
}

// release notes that what a link has is free, and may still be on nodes.
func (l *Ledger) release(link *v1alpha1.TSNLink) {
	_, known := l.released[link.UID]
	l.released[link.UID] = release{VNI: link.Spec.VNI, Addresses: slices.Clone(link.Spec.Client.Addresses), At: l.now(), Client: ClientOfLink(link)}
	l.unsaved = l.unsaved || !known
}
