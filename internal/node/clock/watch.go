// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/kernel"
)

// Watcher looks at a node's clock once a second, and at once when ptp4l or the kernel says that something changed.
type Watcher struct {
	options   Options
	observer  observer
	estimator *estimator

	changes chan Estimate
	stepped chan struct{}
	running sync.WaitGroup
	stop    context.CancelFunc

	latest Estimate
}

// Watch begins to watch the node's clock, until the context ends or the Watcher is closed. It has an estimate when it returns.
func Watch(ctx context.Context, options Options) (*Watcher, error) {
	options.complete()
	if _, err := kernel.Read(); err != nil {
		return nil, fmt.Errorf("watch the clock: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	w := &Watcher{options: options, observer: observer{options: options}, changes: make(chan Estimate, 1), stepped: make(chan struct{}, 1), stop: stop,
		estimator: newEstimator(options.DriftFloorPPB, options.UnknownAccuracy)}
	w.observer.wake = w.step
	w.look(ctx)
	w.running.Go(func() {
		if err := kernel.WaitForSteps(ctx, w.step); err != nil {
			options.Log.Warn("steps of the clock are seen a second late", "reason", err.Error())
		}
	})
	w.running.Go(func() { w.run(ctx) })
	return w, nil
}

// Close ends the watch.
func (w *Watcher) Close() {
	w.stop()
	w.running.Wait()
}

// Changes returns the channel of new estimates: one a second, and one at once after a change. A slow reader gets the newest only.
func (w *Watcher) Changes() <-chan Estimate { return w.changes }

func (w *Watcher) step() {
	select {
	case w.stepped <- struct{}{}:
	default:
	}
}

// shortestPause is between two looks, so that notifications without end cost no more than this.
const shortestPause = 100 * time.Millisecond

func (w *Watcher) run(ctx context.Context) {
	defer w.observer.close()
	ticker := time.NewTicker(w.options.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-w.observer.changed():
			w.observer.hurry()
		case <-w.stepped:
		}
		w.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(shortestPause):
		}
	}
}

// look observes and publishes what it means.
func (w *Watcher) look(ctx context.Context) {
	observation := w.observer.observe(ctx)
	if ctx.Err() != nil {
		return
	}
	estimate := w.estimator.observe(observation)
	w.logChanges(w.latest, estimate)
	w.latest = estimate
	select {
	case <-w.changes:
	default:
	}
	select { // only this goroutine puts estimates in
	case w.changes <- estimate:
	default:
	}
}

// logChanges logs what has changed since the last estimate.
func (w *Watcher) logChanges(before, now Estimate) {
	if before.Steps != now.Steps {
		w.options.Log.Info("the clock was stepped", "by", now.LastStep, "steps", now.Steps)
	}
	if !before.At.IsZero() && before.TAIOffset != now.TAIOffset {
		w.options.Log.Info("CLOCK_TAI has another offset", "before", before.TAIOffset, "now", now.TAIOffset)
	}
	if before.Source != now.Source || before.Grandmaster != now.Grandmaster {
		w.options.Log.Info("the clock has another source", "source", now.Source, "grandmaster", now.Grandmaster)
	}
	if before.Why.Reason != now.Why.Reason && now.Why.Reason != "" {
		w.options.Log.Info("nobody keeps the clock", "reason", now.Why.Reason, "sentence", now.Why.Sentence)
	}
}
