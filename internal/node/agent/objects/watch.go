// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WatchTimeout is the minimum duration of a watch; the maximum is twice as long. With the client's default of five
// minutes an idle node with three networks would send more than one request a minute.
const WatchTimeout = 30 * time.Minute

// objectWatch watches the objects of one kind that a selector matches. The functions are called from the watch's
// goroutine.
type objectWatch struct {
	// kind is an object of the kind, list returns an empty list.
	kind     client.Object
	list     func() client.ObjectList
	selector client.ListOption
	// all is called with all objects after each list, changed with an added or changed object, gone with a deleted one.
	all           func([]client.Object)
	changed, gone func(client.Object)
}

// run watches until ctx ends. It retries failed requests after a second, later after a minute.
func (w *objectWatch) run(ctx context.Context, from client.WithWatch) {
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			into := w.list()
			return into, from.List(ctx, into, &client.ListOptions{Raw: &options, Limit: options.Limit, Continue: options.Continue}, w.selector)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return from.Watch(ctx, w.list(), &client.ListOptions{Raw: &options}, w.selector)
		},
	}
	cache.NewReflectorWithOptions(source, w.kind, (*store)(w), cache.ReflectorOptions{MinWatchTimeout: WatchTimeout}).RunWithContext(ctx)
}

// store implements cache.ReflectorStore for an objectWatch.
type store objectWatch

var _ cache.ReflectorStore = (*store)(nil)

// Add implements cache.ReflectorStore.
func (s *store) Add(object any) error { s.changed(object.(client.Object)); return nil }

// Update implements cache.ReflectorStore.
func (s *store) Update(object any) error { s.changed(object.(client.Object)); return nil }

// Delete implements cache.ReflectorStore.
func (s *store) Delete(object any) error { s.gone(object.(client.Object)); return nil }

// Replace implements cache.ReflectorStore.
func (s *store) Replace(objects []any, _ string) error {
	all := make([]client.Object, 0, len(objects))
	for _, object := range objects {
		all = append(all, object.(client.Object))
	}
	s.all(all)
	return nil
}

// Resync implements cache.ReflectorStore.
func (s *store) Resync() error { return nil }
