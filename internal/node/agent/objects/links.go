// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"log/slog"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Links keeps the TSNLinks of which an end is on a node of this name. The API server chooses them by either end, so there are two watches,
// and a link of which both ends are here is in both.
type Links struct {
	// Client reads past any cache.
	Client client.WithWatch
	// Node is the name of the node.
	Node string
	// Wait returns before the first request, with an error when ctx has ended; nil: at once.
	Wait func(ctx context.Context) error
	// Minimum is the least encryption that the cluster accepts; links that ask for less have that.
	Minimum *tsnnetwork.EncryptionMinimum
	// Changed is called with each link that has changed, come or gone. It must not block.
	Changed func(types.NamespacedName)
	Log     *slog.Logger

	mu sync.Mutex
	// byEnd are the links whose client, and whose endpoint, is on the node; nil as long as they were not listed.
	byEnd [len(linkSelectors)]map[types.NamespacedName]*v1alpha1.TSNLink
}

// linkSelectors are the fields by which links are chosen.
var linkSelectors = [...]string{"spec.client.node", "spec.endpoint.node"}

// Run watches until ctx ends.
func (l *Links) Run(ctx context.Context) error {
	if l.Wait != nil {
		if err := l.Wait(ctx); err != nil {
			return nil // ctx has ended
		}
	}
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(l.Log.Handler()))
	var watches sync.WaitGroup
	for end := range linkSelectors {
		watches.Go(func() { l.watched(end).run(ctx, l.Client) })
	}
	watches.Wait()
	return nil
}

// watched watches the links of which one end is on the node.
func (l *Links) watched(end int) *watched {
	return &watched{
		kind: &v1alpha1.TSNLink{}, list: func() client.ObjectList { return &v1alpha1.TSNLinkList{} },
		selector: client.MatchingFields{linkSelectors[end]: l.Node},
		all:      func(all []client.Object) { l.replace(end, all) },
		changed:  func(object client.Object) { l.set(end, client.ObjectKeyFromObject(object), object.(*v1alpha1.TSNLink)) },
		gone:     func(one client.Object) { l.set(end, client.ObjectKeyFromObject(one), nil) },
	}
}

func (l *Links) replace(end int, all []client.Object) {
	now := map[types.NamespacedName]*v1alpha1.TSNLink{}
	for _, object := range all {
		link := l.trim(object.(*v1alpha1.TSNLink))
		now[client.ObjectKeyFromObject(link)] = link
	}
	l.mu.Lock()
	before := l.byEnd[end]
	l.byEnd[end] = now
	l.mu.Unlock()
	for name := range before {
		if now[name] == nil {
			l.Changed(name)
		}
	}
	for name := range now {
		l.Changed(name)
	}
}

func (l *Links) set(end int, name types.NamespacedName, link *v1alpha1.TSNLink) {
	l.mu.Lock()
	switch {
	case l.byEnd[end] == nil: // the event is of a watch that has not listed
	case link == nil:
		delete(l.byEnd[end], name)
	default:
		l.byEnd[end][name] = l.trim(link)
	}
	l.mu.Unlock()
	l.Changed(name)
}

// trim makes of a link what agents go by.
func (l *Links) trim(link *v1alpha1.TSNLink) *v1alpha1.TSNLink {
	link.ManagedFields = nil
	l.Minimum.Raise(&link.Spec.Encryption, link.Namespace+"/"+link.Spec.Service)
	return link
}

// Get is a link as it was heard of last, nil if it is none of the node's. Nobody changes what is in it.
func (l *Links) Get(name types.NamespacedName) *v1alpha1.TSNLink {
	l.mu.Lock()
	defer l.mu.Unlock()
	var latest *v1alpha1.TSNLink
	for end := range l.byEnd {
		if link := l.byEnd[end][name]; link != nil && (latest == nil || newer(link, latest)) {
			latest = link
		}
	}
	return latest
}

// newer tells which of two events of one link came later. A version is a number in all API servers there are, and longer when larger.
func newer(a, b *v1alpha1.TSNLink) bool {
	if len(a.ResourceVersion) != len(b.ResourceVersion) {
		return len(a.ResourceVersion) > len(b.ResourceVersion)
	}
	return a.ResourceVersion > b.ResourceVersion
}

// All are the node's links; known tells whether these are all, as the API server has said.
func (l *Links) All() (all []types.NamespacedName, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known = true
	seen := map[types.NamespacedName]bool{}
	for end := range l.byEnd {
		known = known && l.byEnd[end] != nil
		for name := range l.byEnd[end] {
			if !seen[name] {
				seen[name] = true
				all = append(all, name)
			}
		}
	}
	return all, known
}
