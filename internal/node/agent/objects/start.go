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
	// justBooted is for how long after its boot a machine may have booted together with all others, as after a power cut.
	justBooted = 10 * time.Minute
	// spreadAfterBoot is the time over which the agents of all machines begin to ask the API server then, spreadElse otherwise.
	spreadAfterBoot = 15 * time.Second
	spreadElse      = time.Second
)

// Start is when an agent begins to ask the API server: agents that start together begin at different times.
type Start struct{ at time.Time }

// NewStart draws a time for an agent of a machine that has been up for so long.
func NewStart(now time.Time, uptime time.Duration) Start {
	spread := spreadElse
	if uptime < justBooted {
		spread = spreadAfterBoot
	}
	return Start{now.Add(rand.N(spread))}
}

// Wait waits until then. The error is that of ctx, when it ends before.
func (s Start) Wait(ctx context.Context) error { return retry.Pause(ctx, time.Until(s.at)) }

// Informer makes an informer, as controller-runtime's cache asks for them, that begins then and whose watches last as
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
