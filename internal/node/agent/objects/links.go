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

// Links caches the TSNLinks with an end on a node of this name. The API server selects by one end, so there are two
// watches; a link with both ends here is in both.
type Links struct {
	// Client reads without a cache.
	Client client.WithWatch
	// Node is the name of the node.
	Node string
	// Wait delays the first request and returns an error when ctx has ended; may be nil.
	Wait func(ctx context.Context) error
	// Minimum is the cluster's minimum encryption; it raises that of links.
	Minimum *tsnnetwork.EncryptionMinimum
	// Changed is called for each added, changed or deleted link. It must not block.
	Changed func(types.NamespacedName)
	Log     *slog.Logger

	mu sync.Mutex
	// byEnd are the links whose client, and whose endpoint, is on the node; nil until they are listed.
	byEnd [len(linkSelectors)]map[types.NamespacedName]*v1alpha1.TSNLink
}

// linkSelectors are the fields by which links are selected.
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
		watches.Go(func() { l.watchEnd(end).run(ctx, l.Client) })
	}
	watches.Wait()
	return nil
}

// watchEnd returns the watch of the links with one end on the node.
func (l *Links) watchEnd(end int) *objectWatch {
	return &objectWatch{
		kind: &v1alpha1.TSNLink{}, list: func() client.ObjectList { return &v1alpha1.TSNLinkList{} },
		selector: client.MatchingFields{linkSelectors[end]: l.Node},
		all:      func(all []client.Object) { l.replace(end, all) },
		changed:  func(object client.Object) { l.set(end, client.ObjectKeyFromObject(object), object.(*v1alpha1.TSNLink)) },
		gone:     func(object client.Object) { l.set(end, client.ObjectKeyFromObject(object), nil) },
	}
}

func (l *Links) replace(end int, all []client.Object) {
	links := map[types.NamespacedName]*v1alpha1.TSNLink{}
	for _, object := range all {
		link := l.trim(object.(*v1alpha1.TSNLink))
		links[client.ObjectKeyFromObject(link)] = link
	}
	l.mu.Lock()
	before := l.byEnd[end]
	l.byEnd[end] = links
	l.mu.Unlock()
	for name := range before {
		if links[name] == nil {
			l.Changed(name)
		}
	}
	for name := range links {
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

// trim drops what agents do not read and applies Minimum.
func (l *Links) trim(link *v1alpha1.TSNLink) *v1alpha1.TSNLink {
	link.ManagedFields = nil
	l.Minimum.Raise(&link.Spec.Encryption, link.Namespace+"/"+link.Spec.Service)
	return link
}

// Get returns a link, nil if the node has no end of it. Callers must not modify it.
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

// newer reports whether a is newer than b. Resource versions are decimal numbers in all known API servers.
func newer(a, b *v1alpha1.TSNLink) bool {
	if len(a.ResourceVersion) != len(b.ResourceVersion) {
		return len(a.ResourceVersion) > len(b.ResourceVersion)
	}
	return a.ResourceVersion > b.ResourceVersion
}

// All returns the names of the node's links; known is false until all are listed.
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
