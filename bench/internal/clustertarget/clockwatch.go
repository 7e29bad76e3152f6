// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

const (
	// readClocksEvery is how often the agents' reports are read during a run: agents write changes at once, and reading
	// costs the nodes nothing.
	readClocksEvery = time.Second
	// settleTime is how long clocks may take to become good enough.
	settleTime = 30 * time.Second
	// clockAttempts limits the attempts of a run whose clocks were not good enough.
	clockAttempts = 3
)

// clockWatch reads the reports about both clocks during a run.
type clockWatch struct {
	target    *Target
	estimates [2]estimate
	// began are the first readings, and rough the agents' reports then.
	began, rough [2]reading
	cancel       context.CancelFunc
	done         chan struct{}
}

// watchClocks begins the watch; finish ends it.
func (l *Target) watchClocks(ctx context.Context) (*clockWatch, error) {
	w := &clockWatch{target: l, done: make(chan struct{})}
	for i := range l.ends {
		var err error
		if w.began[i], err = l.readExact(ctx, &l.ends[i]); err != nil {
			return nil, err
		}
		if w.rough[i], err = l.readRough(ctx, &l.ends[i]); err != nil {
			return nil, err
		}
		w.estimates[i] = newEstimate(l.ends[i].node, w.began[i])
	}
	ctx, w.cancel = context.WithCancel(ctx)
	go w.follow(ctx)
	return w, nil
}

// follow reads the agents' reports until ctx ends. They are rounded up, so they count only if they have grown since the
// beginning. A failed request is repeated.
func (w *clockWatch) follow(ctx context.Context) {
	defer close(w.done)
	for retry.Pause(ctx, w.target.clockEvery) == nil {
		for i := range w.estimates {
			now, err := w.target.readNext(ctx, &w.target.ends[i])
			if err != nil {
				continue
			}
			w.estimates[i].note(now)
			if w.rough[i].known() && (!now.known() || now.bound > w.rough[i].bound) {
				w.estimates[i].add(now)
			}
		}
	}
}

// readNext reads an agent's report during a run. ktsnd's bound is valid without the agent as well.
func (l *Target) readNext(ctx context.Context, source *end) (reading, error) {
	if source.ktsnd != nil {
		return l.readRough(ctx, source)
	}
	return l.readWatched(ctx, source)
}

// stop ends the reading. It may be called twice.
func (w *clockWatch) stop() {
	w.cancel()
	<-w.done
}

// finish reads once more, and returns the largest possible errors of both clocks.
func (w *clockWatch) finish(ctx context.Context) (*[2]estimate, error) {
	w.stop()
	for i := range w.estimates {
		last, err := w.target.readExact(ctx, &w.target.ends[i])
		if err != nil {
			return nil, err
		}
		w.estimates[i].note(last)
		w.estimates[i].add(last)
		w.estimates[i].stepped = last.steppedSince(w.began[i])
	}
	return &w.estimates, nil
}

// performWatched performs a run, and repeats it if the clocks were not good enough.
func (l *Target) performWatched(ctx context.Context, run engine.Run) (*engine.Outcome, error) {
	if l.oneClock {
		outcome, err := l.perform(ctx, run)
		if err == nil {
			outcome.Observed.ClockError = results.OneClock()
		}
		return outcome, err
	}
	for attempt := 1; ; attempt++ {
		outcome, seen, err := l.performOnce(ctx, run)
		if err != nil {
			return nil, err
		}
		by := l.judge()
		by.median, by.measured = medianLatency(outcome.Messages)
		verdict := by.of(&seen[0], &seen[1])
		clockError := errorOf(&seen[0], &seen[1])
		clockError.Doubt, clockError.AnyClock = verdict.doubt, verdict.doubt != "" && l.AnyClock
		outcome.Observed.ClockError = clockError
		if verdict.refused == "" || l.AnyClock || run.Number == 0 {
			return outcome, nil
		}
		if attempt == clockAttempts {
			return nil, refusal(verdict.refused)
		}
		if err := l.awaitClocks(ctx, cmp.Or(by.limit, by.median)); err != nil {
			return nil, err
		}
	}
}

func (l *Target) performOnce(ctx context.Context, run engine.Run) (*engine.Outcome, *[2]estimate, error) {
	watch, err := l.watchClocks(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer watch.stop()
	outcome, err := l.perform(ctx, run)
	if err != nil {
		return nil, nil, err
	}
	seen, err := watch.finish(ctx)
	return outcome, seen, err
}

// judge returns the criteria of this bench, as far as they are known without a run.
func (l *Target) judge() judge {
	return judge{limit: l.maxClockError, apart: l.clocks.last.apart()}
}

// medianLatency is false if nothing arrived.
func medianLatency(messages []results.Message) (time.Duration, bool) {
	var latencies []int64
	for i := range messages {
		if message := &messages[i]; message.Errno == 0 && message.Arrival != 0 {
			latencies = append(latencies, message.Arrival-message.Txtime)
		}
	}
	if len(latencies) == 0 {
		return 0, false
	}
	slices.Sort(latencies)
	return time.Duration(stats.Percentile(latencies, 5000)), true
}

// checkClocks fails before anything is measured if the clocks are known not to be good enough.
func (l *Target) checkClocks(ctx context.Context) error {
	if l.clocks.last.apart() > 0 {
		l.oneClock = false // even if they have one kernel
	}
	if l.oneClock || l.AnyClock {
		return l.readBoth(ctx)
	}
	if l.maxClockError > 0 {
		if err := l.awaitClocks(ctx, l.maxClockError); err != nil {
			return err
		}
	}
	if err := l.readBoth(ctx); err != nil {
		return err
	}
	by := l.judge()
	if verdict := by.of(l.estimateNow(0), l.estimateNow(1)); verdict.refused != "" {
		return refusal(verdict.refused)
	}
	return nil
}

// readBoth stores the reports about both clocks for the report.
func (l *Target) readBoth(ctx context.Context) error {
	if l.oneClock {
		return nil
	}
	for i := range l.ends {
		var err error
		if l.readings[i], err = l.readExact(ctx, &l.ends[i]); err != nil {
			return err
		}
	}
	return nil
}

func (l *Target) estimateNow(i int) *estimate {
	now := newEstimate(l.ends[i].node, l.readings[i])
	return &now
}

// awaitClocks waits until the error of both clocks together is within a limit, or until settleTime has passed: the
// judge then reports the problem.
func (l *Target) awaitClocks(ctx context.Context, limit time.Duration) error {
	for deadline := time.Now().Add(l.settle); ; {
		if err := l.readBoth(ctx); err != nil {
			return err
		}
		both := errorOf(l.estimateNow(0), l.estimateNow(1))
		if both.Combined != nil && time.Duration(*both.Combined) <= limit || time.Now().After(deadline) {
			return nil
		}
		if err := retry.Pause(ctx, l.clockEvery); err != nil {
			return err
		}
	}
}
