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

// Teller has ktsnd know of the node's clock, and of what the networks ask of it.
type Teller struct {
	// Do has ask talk to ktsnd.
	Do func(ctx context.Context, ask func(context.Context, Ktsnd) error) error
	// Changed is called when it turns out that ktsnd knows nothing of networks' clocks, or does again. It must not block.
	Changed func()
	Now     func() time.Time
	Log     *slog.Logger

	mu sync.Mutex
	// wants is what ktsnd is to know, nil as long as nothing is; anew means that it may know nothing of it.
	wants *wanted
	anew  bool
	woken chan struct{}

	// The rest is the goroutine's of run: what ktsnd was told last, and when all of that was last compared with what it says.
	clock    *told
	clockAt  time.Time
	networks map[uint32]control.ClockNeed
	compared time.Time
	failure  string
}

// wanted is what ktsnd is to know.
type wanted struct {
	clock *told
	// networks are requirements by VNI; complete tells that others have none.
	networks map[uint32]control.ClockNeed
	complete bool
	// unjudged tells that nobody has judged the clock yet: what ktsnd knows of a network stays.
	unjudged bool
}

// told is what ktsnd is told of the node's clock.
type told struct {
	state clock.State
	// bound is below zero where it is not known.
	bound    time.Duration
	driftPPB int64
	// at is when that was so.
	at time.Time
}

const (
	// repeatEvery is how often ktsnd is told of the clock when nothing has changed, compareEvery how often it is asked what it knows.
	repeatEvery  = 10 * time.Second
	compareEvery = 30 * time.Second
	// retryAfter is when to tell again what could not be told.
	retryAfter = time.Second
	// noticeably is by which part of it a bound must differ from what ktsnd believes to be told again.
	noticeably = 8
	// mostOfReason is what ktsnd takes, less what Shorten adds.
	mostOfReason = 512 - len("...")
)

// NewTeller makes a teller; run has it talk.
func NewTeller(do func(ctx context.Context, ask func(context.Context, Ktsnd) error) error, changed func(), log *slog.Logger) *Teller {
	return &Teller{Do: do, Changed: changed, Now: time.Now, Log: log, anew: true, woken: make(chan struct{}, 1)}
}

// Anew has ktsnd be told of everything: it may be another one.
func (t *Teller) Anew() {
	t.mu.Lock()
	t.anew = true
	t.mu.Unlock()
	t.wake()
}

// want says what ktsnd is to know from now on.
func (t *Teller) want(all *wanted) {
	t.mu.Lock()
	t.wants = all
	t.mu.Unlock()
	t.wake()
}

func (t *Teller) wake() {
	select {
	case t.woken <- struct{}{}:
	default: // it is to look anyway
	}
}

func (t *Teller) run(ctx context.Context) {
	again := time.NewTimer(retryAfter)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.woken:
		case <-again.C:
		}
		if err := t.tell(ctx); err != nil && ctx.Err() == nil {
			again.Reset(retryAfter)
		}
	}
}

// tell has ktsnd know what has changed.
func (t *Teller) tell(ctx context.Context) error {
	t.mu.Lock()
	wants, anew := t.wants, t.anew
	t.anew = false
	t.mu.Unlock()
	if wants == nil {
		return nil
	}
	if anew {
		t.clock, t.networks = nil, nil
	}
	now := t.Now()
	compare := t.networks == nil || now.Sub(t.compared) >= compareEvery
	if !compare && !t.clockDiffers(wants, now) && !t.networksDiffer(wants) {
		return nil
	}
	err := t.Do(ctx, func(ctx context.Context, ktsnd Ktsnd) error { return t.ask(ctx, ktsnd, wants, compare) })
	t.complain(err)
	if err != nil {
		t.clock, t.networks = nil, nil // what of it was told, nobody knows
	}
	return err
}

// ask tells of the clock first: ktsnd does not believe a network's clock of whose error it was not told.
func (t *Teller) ask(ctx context.Context, ktsnd Ktsnd, wants *wanted, compare bool) error {
	now := t.Now()
	if wants.clock != nil && (t.clock == nil || t.clockDiffers(wants, now)) {
		err := ktsnd.ClockSet(ctx, wants.clock.quality(t.Now()))
		t.clock, t.clockAt = wants.clock, now
		if err != nil {
			return fmt.Errorf("tell of the node's clock: %w", err)
		}
	}
	if compare {
		if err := t.compare(ctx, ktsnd); err != nil {
			return err
		}
		t.compared = now
	}
	return t.askNetworks(ctx, ktsnd, wants)
}

// TellNew tells a ktsnd that knows nothing yet, before it serves pods: it would send by a clock that is lost. Anew follows, which sees to
// the rest.
func (t *Teller) TellNew(ctx context.Context, ktsnd Ktsnd) error {
	t.mu.Lock()
	wants := t.wants
	t.mu.Unlock()
	if wants == nil || wants.clock == nil && len(wants.networks) == 0 {
		return nil
	}
	var known []control.NetworkClock
	var err error
	if wants.clock != nil {
		err = ktsnd.ClockSet(ctx, wants.clock.quality(t.Now()))
	}
	if wants.unjudged {
		known, err = ktsnd.NetworkClocks(ctx)
	}
	for vni, need := range wants.networks {
		if err == nil && !slices.ContainsFunc(known, func(has control.NetworkClock) bool { return has.VNI == vni }) {
			err = ktsnd.NetworkClockSet(ctx, vni, &need)
		}
	}
	if err != nil {
		return fmt.Errorf("tell of the node's clock: %w", err)
	}
	return nil
}

// quality is what ktsnd is told now, which ages it from then on.
func (t *told) quality(now time.Time) control.ClockQuality {
	quality := control.ClockQuality{State: control.ClockState(strings.ToLower(string(t.state))), ErrorBoundNs: -1, DriftPPB: t.driftPPB}
	if t.bound >= 0 {
		quality.ErrorBoundNs = t.believed(now).Nanoseconds()
	}
	return quality
}

// compare takes what ktsnd says for what it was told.
func (t *Teller) compare(ctx context.Context, ktsnd Ktsnd) error {
	all, err := ktsnd.NetworkClocks(ctx)
	if err != nil {
		return fmt.Errorf("ask what networks ask of the clock: %w", err)
	}
	t.networks = map[uint32]control.ClockNeed{}
	for _, networkClock := range all {
		t.networks[networkClock.VNI] = networkClock.ClockNeed
	}
	return nil
}

// askNetworks tells of the networks in which ktsnd differs. Requirements of others go where these are all.
func (t *Teller) askNetworks(ctx context.Context, ktsnd Ktsnd, wants *wanted) error {
	for vni := range t.networks {
		if _, keep := wants.networks[vni]; keep || !wants.complete {
			continue
		}
		if err := ktsnd.NetworkClockSet(ctx, vni, nil); err != nil {
			return fmt.Errorf("tell that network %d asks nothing of the clock: %w", vni, err)
		}
		delete(t.networks, vni)
	}
	for vni, need := range wants.networks {
		if have, known := t.networks[vni]; known && (wants.unjudged || have == need) {
			continue
		}
		if err := ktsnd.NetworkClockSet(ctx, vni, &need); err != nil {
			return fmt.Errorf("tell what network %d asks of the clock: %w", vni, err)
		}
		t.networks[vni] = need
	}
	return nil
}

// complain logs a failure once.
func (t *Teller) complain(err error) {
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != "" && said != t.failure {
		t.Log.Warn("cannot tell ktsnd of the node's clock", "error", said)
	}
	t.failure = said
}
