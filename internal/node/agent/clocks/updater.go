// SPDX-License-Identifier: Apache-2.0

package clocks

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Ktsnd is a connection to the node's ktsnd.
type Ktsnd interface {
	ClockSet(ctx context.Context, clock control.ClockQuality) error
	NetworkClockSet(ctx context.Context, vni uint32, need *control.ClockNeed) error
	NetworkClocks(ctx context.Context) ([]control.NetworkClock, error)
}

// Updater keeps ktsnd up to date about the node's clock and the requirements of the networks.
type Updater struct {
	// Do calls ask with a connection to ktsnd.
	Do func(ctx context.Context, ask func(context.Context, Ktsnd) error) error
	// Changed is called when ktsnd has lost the state of networks' clocks, or has it again. It must not block.
	Changed func()
	Now     func() time.Time
	Log     *slog.Logger

	mu sync.Mutex
	// desired is the desired state of ktsnd, nil as long as there is none; reset means that ktsnd may have lost its
	// state.
	desired *desiredState
	reset   bool
	wakeup  chan struct{}

	// Only the goroutine of run uses the other fields: the state that was sent, and when it was last compared with that
	// of ktsnd.
	sentClock  *clockReport
	sentAt     time.Time
	networks   map[uint32]control.ClockNeed
	comparedAt time.Time
	failure    string
}

// desiredState is the desired state of ktsnd.
type desiredState struct {
	clock *clockReport
	// networks are the requirements by VNI; complete means that other networks have none.
	networks map[uint32]control.ClockNeed
	complete bool
	// unjudged means that the clock was not judged yet: ktsnd keeps the state of known networks.
	unjudged bool
}

// clockReport is the state of the node's clock for ktsnd.
type clockReport struct {
	state clock.State
	// bound is below zero if it is unknown.
	bound    time.Duration
	driftPPB int64
	// measuredAt is when the bound held.
	measuredAt time.Time
}

const (
	// clockInterval is the time between two updates of an unchanged clock, compareInterval the time between two
	// comparisons with the state of ktsnd.
	clockInterval   = 10 * time.Second
	compareInterval = 30 * time.Second
	// retryDelay is the time until a failed update is retried.
	retryDelay = time.Second
	// boundFraction: a bound is sent again if ktsnd's extrapolation differs by more than this fraction of it.
	boundFraction = 8
	// maxReasonBytes is ktsnd's limit, less the bytes that Shorten adds.
	maxReasonBytes = 512 - len("...")
)

// NewUpdater returns an updater.
func NewUpdater(do func(ctx context.Context, ask func(context.Context, Ktsnd) error) error, changed func(), log *slog.Logger) *Updater {
	return &Updater{Do: do, Changed: changed, Now: time.Now, Log: log, reset: true, wakeup: make(chan struct{}, 1)}
}

// Reset sends everything again, because ktsnd may have restarted.
func (t *Updater) Reset() {
	t.mu.Lock()
	t.reset = true
	t.mu.Unlock()
	t.wake()
}

// set sets the desired state.
func (t *Updater) set(desired *desiredState) {
	t.mu.Lock()
	t.desired = desired
	t.mu.Unlock()
	t.wake()
}

func (t *Updater) wake() {
	select {
	case t.wakeup <- struct{}{}:
	default: // already woken
	}
}

func (t *Updater) run(ctx context.Context) {
	retryTimer := time.NewTimer(retryDelay)
	defer retryTimer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wakeup:
		case <-retryTimer.C:
		}
		if err := t.update(ctx); err != nil && ctx.Err() == nil {
			retryTimer.Reset(retryDelay)
		}
	}
}

// update sends the changes to ktsnd.
func (t *Updater) update(ctx context.Context) error {
	t.mu.Lock()
	desired, reset := t.desired, t.reset
	t.reset = false
	t.mu.Unlock()
	if desired == nil {
		return nil
	}
	if reset {
		t.sentClock, t.networks = nil, nil
	}
	now := t.Now()
	compare := t.networks == nil || now.Sub(t.comparedAt) >= compareInterval
	if !compare && !t.clockDiffers(desired, now) && !t.networksDiffer(desired) {
		return nil
	}
	err := t.Do(ctx, func(ctx context.Context, ktsnd Ktsnd) error { return t.send(ctx, ktsnd, desired, compare) })
	t.logFailure(err)
	if err != nil {
		t.sentClock, t.networks = nil, nil // the state of ktsnd is unknown
	}
	return err
}

// send sends the clock first: ktsnd does not trust a network's clock without a known error.
func (t *Updater) send(ctx context.Context, ktsnd Ktsnd, desired *desiredState, compare bool) error {
	now := t.Now()
	if desired.clock != nil && (t.sentClock == nil || t.clockDiffers(desired, now)) {
		err := ktsnd.ClockSet(ctx, desired.clock.quality(t.Now()))
		t.sentClock, t.sentAt = desired.clock, now
		if err != nil {
			return fmt.Errorf("set the node's clock in ktsnd: %w", err)
		}
	}
	if compare {
		if err := t.compare(ctx, ktsnd); err != nil {
			return err
		}
		t.comparedAt = now
	}
	return t.sendNetworks(ctx, ktsnd, desired)
}

// Prepare sends the state to a new ktsnd before it serves pods: it would send by a clock that is lost. A call of Reset
// follows for the rest.
func (t *Updater) Prepare(ctx context.Context, ktsnd Ktsnd) error {
	t.mu.Lock()
	desired := t.desired
	t.mu.Unlock()
	if desired == nil || desired.clock == nil && len(desired.networks) == 0 {
		return nil
	}
	var known []control.NetworkClock
	var err error
	if desired.clock != nil {
		err = ktsnd.ClockSet(ctx, desired.clock.quality(t.Now()))
	}
	if desired.unjudged {
		known, err = ktsnd.NetworkClocks(ctx)
	}
	for vni, need := range desired.networks {
		if err == nil && !slices.ContainsFunc(known, func(has control.NetworkClock) bool { return has.VNI == vni }) {
			err = ktsnd.NetworkClockSet(ctx, vni, &need)
		}
	}
	if err != nil {
		return fmt.Errorf("set the node's clock in ktsnd: %w", err)
	}
	return nil
}

// quality returns the clock's quality at a time; ktsnd extrapolates it from then on.
func (t *clockReport) quality(now time.Time) control.ClockQuality {
	quality := control.ClockQuality{State: control.ClockState(strings.ToLower(string(t.state))), ErrorBoundNs: -1, DriftPPB: t.driftPPB}
	if t.bound >= 0 {
		quality.ErrorBoundNs = t.boundAt(now).Nanoseconds()
	}
	return quality
}

// compare reads the state of ktsnd.
func (t *Updater) compare(ctx context.Context, ktsnd Ktsnd) error {
	all, err := ktsnd.NetworkClocks(ctx)
	if err != nil {
		return fmt.Errorf("get the clock requirements of networks: %w", err)
	}
	t.networks = map[uint32]control.ClockNeed{}
	for _, networkClock := range all {
		t.networks[networkClock.VNI] = networkClock.ClockNeed
	}
	return nil
}

// sendNetworks sends the networks that differ. If the desired state is complete, it removes the others.
func (t *Updater) sendNetworks(ctx context.Context, ktsnd Ktsnd, desired *desiredState) error {
	for vni := range t.networks {
		if _, keep := desired.networks[vni]; keep || !desired.complete {
			continue
		}
		if err := ktsnd.NetworkClockSet(ctx, vni, nil); err != nil {
			return fmt.Errorf("remove the clock requirement of network %d: %w", vni, err)
		}
		delete(t.networks, vni)
	}
	for vni, need := range desired.networks {
		if have, known := t.networks[vni]; known && (desired.unjudged || have == need) {
			continue
		}
		if err := ktsnd.NetworkClockSet(ctx, vni, &need); err != nil {
			return fmt.Errorf("set the clock requirement of network %d: %w", vni, err)
		}
		t.networks[vni] = need
	}
	return nil
}

// logFailure logs a failure once.
func (t *Updater) logFailure(err error) {
	message := ""
	if err != nil {
		message = err.Error()
	}
	if message != "" && message != t.failure {
		t.Log.Warn("cannot update the node's clock in ktsnd", "error", message)
	}
	t.failure = message
}
