// SPDX-License-Identifier: Apache-2.0

// Package linkledger tracks TSNLinks beyond what a cache has: links that were just written, and VNIs and addresses that were released
// recently, also by a previous maker of links.
package linkledger

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

const (
	// ReleaseRetention is how long VNI and addresses of a deleted link are not reused: nodes remove the link with a delay.
	ReleaseRetention = 30 * time.Second
	// clientRetention is how long the client of a deleted link is remembered: longer, so that its next link can get the same resources.
	clientRetention = 2 * ReleaseRetention
	// cacheSyncTimeout is how long the cache may take to have a written link.
	cacheSyncTimeout = 30 * time.Second
)

// Ledger merges the links of a cache with those that were just written, which the cache may not have yet. Otherwise a link's VNI could be
// allocated twice.
type Ledger struct {
	now   func() time.Time
	store *Store
	// written are the links that were created or updated, until the cache has them.
	written map[types.UID]*writtenLink
	// deleted are links that the cache may still have.
	deleted map[types.UID]bool
	// last are the links of the last List; released are the resources of links that were deleted since, by the links' UIDs.
	last     map[types.UID]v1alpha1.TSNLink
	released map[types.UID]release
	// loaded is set when released has the stored releases, unsaved if it has some that are not stored.
	loaded, unsaved bool
}

type writtenLink struct {
	link v1alpha1.TSNLink
	at   time.Time
}

// New returns a ledger that stores released resources in a store.
func New(store *Store, now func() time.Time) *Ledger {
	return &Ledger{now: now, store: store, written: map[types.UID]*writtenLink{}, deleted: map[types.UID]bool{},
		last: map[types.UID]v1alpha1.TSNLink{}, released: map[types.UID]release{}}
}

// RecordWrite records that a link was created or updated.
func (l *Ledger) RecordWrite(link *v1alpha1.TSNLink) {
	l.written[link.UID] = &writtenLink{*link, l.now()}
}

// RecordDelete records that a link was deleted.
func (l *Ledger) RecordDelete(uid types.UID) {
	l.deleted[uid] = true
	delete(l.written, uid)
}

// merge returns the current links from those in the cache and the recorded writes.
func (l *Ledger) merge(cached []v1alpha1.TSNLink) []v1alpha1.TSNLink {
	var links []v1alpha1.TSNLink
	inCache := make(map[types.UID]bool, len(cached))
	for i := range cached {
		link := &cached[i]
		inCache[link.UID] = true
		if l.deleted[link.UID] {
			continue
		}
		entry := l.written[link.UID]
		switch {
		case entry == nil:
			links = append(links, *link)
		case link.Generation >= entry.link.Generation:
			delete(l.written, link.UID)
			links = append(links, *link)
		default:
			newer := entry.link
			newer.Status = link.Status
			links = append(links, newer)
		}
	}
	maps.DeleteFunc(l.deleted, func(uid types.UID, _ bool) bool { return !inCache[uid] })
	for uid, entry := range l.written {
		switch {
		case inCache[uid]:
		case l.now().Sub(entry.at) < cacheSyncTimeout:
			links = append(links, entry.link)
		default: // deleted by another client
			delete(l.written, uid)
		}
	}
	l.trackReleased(links)
	return links
}

// trackReleased releases the resources of the links that were deleted since the last List.
func (l *Ledger) trackReleased(links []v1alpha1.TSNLink) {
	current := make(map[types.UID]v1alpha1.TSNLink, len(links))
	for i := range links {
		current[links[i].UID] = links[i]
	}
	for uid, link := range l.last {
		if _, still := current[uid]; !still {
			l.release(&link)
		}
	}
	l.last = current
	maps.DeleteFunc(l.released, func(_ types.UID, r release) bool { return l.now().Sub(r.At) >= clientRetention })
}

// release records that the resources of a link are released, and may still be on nodes.
func (l *Ledger) release(link *v1alpha1.TSNLink) {
	_, known := l.released[link.UID]
	l.released[link.UID] = release{VNI: link.Spec.VNI, Addresses: slices.Clone(link.Spec.Client.Addresses), At: l.now(), Client: ClientOfLink(link)}
	l.unsaved = l.unsaved || !known
}

// clientBytes is the length of the hash that identifies a client. Names would be too long for thousands of them in one object.
const clientBytes = 9

// ClientOf identifies a pod of a cluster as a client of a service. A recreated pod of the same name is the same client.
func ClientOf(serviceNamespace, service, cluster, namespace, pod string) string {
	hash := sha256.Sum256([]byte(strings.Join([]string{serviceNamespace, service, cluster, namespace, pod}, "\x00")))
	return base64.RawURLEncoding.EncodeToString(hash[:clientBytes])
}

// ClientOfLink identifies the client of a link.
func ClientOfLink(link *v1alpha1.TSNLink) string {
	client := &link.Spec.Client
	return ClientOf(link.Namespace, link.Spec.Service, client.Cluster, client.Namespace, client.Pod)
}

// Clients returns the clients of recently deleted links.
func (l *Ledger) Clients() map[string]bool {
	clients := map[string]bool{}
	for _, release := range l.released {
		if release.Client != "" {
			clients[release.Client] = true
		}
	}
	return clients
}

// PlanChanged ignores updates of a link that do not affect a plan.
var PlanChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*v1alpha1.TSNLink), e.ObjectNew.(*v1alpha1.TSNLink)
	if before.UID != after.UID || !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return true
	}
	for _, kind := range []string{v1alpha1.ConditionUp, v1alpha1.ConditionClientPlugged} {
		was, condition := meta.FindStatusCondition(before.Status.Conditions, kind), meta.FindStatusCondition(after.Status.Conditions, kind)
		if (was == nil) != (condition == nil) || was != nil && was.Status != condition.Status {
			return true
		}
	}
	return false
}}
