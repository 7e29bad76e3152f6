// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

const (
	// justBooted is the uptime below which all machines may have booted together, such as after a power failure.
	justBooted = 10 * time.Minute
	// spreadAfterBoot is the time over which all agents start their requests then, spreadElse otherwise.
	spreadAfterBoot = 15 * time.Second
	spreadElse      = time.Second
)

// Start is the time of an agent's first request to the API server, which differs among agents.
type Start struct{ at time.Time }

// NewStart returns a random start for an agent, by the uptime of its machine.
func NewStart(now time.Time, uptime time.Duration) Start {
	spread := spreadElse
	if uptime < justBooted {
		spread = spreadAfterBoot
	}
	return Start{now.Add(rand.N(spread))}
}

// Wait waits until the start. It returns the error of ctx if that ends before.
func (s Start) Wait(ctx context.Context) error { return retry.Pause(ctx, time.Until(s.at)) }

// Informer returns an informer for the cache of controller-runtime that begins at the start, and whose watches last as
// long as those of this package.
func (s Start) Informer(source cache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	asked := cache.ToListerWatcherWithContext(source)
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			if err := s.Wait(ctx); err != nil {
				return nil, err
			}
			return asked.ListWithContext(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			seconds := int64((WatchTimeout + rand.N(WatchTimeout)).Seconds())
			options.TimeoutSeconds = &seconds
			return asked.WatchWithContext(ctx, options)
		},
	}, kind, resync, indexers)
}
