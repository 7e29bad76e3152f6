// SPDX-License-Identifier: Apache-2.0

package clocks

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

// Judge says what estimates mean for one need. It remembers those before, so that a clock at its limit is not good and bad in turns.
type Judge interface {
	Look(need clock.Need, estimate clock.Estimate) clock.Verdict
}

// Metrics are the figures of the node's clock.
type Metrics interface {
	Clock(estimate *clock.Estimate, state clock.State)
}

// Follower follows the clock of the node.
type Follower struct {
	// Watch gives hear an estimate once a second, and at once what has changed, until ctx ends.
	Watch func(ctx context.Context, hear func(clock.Estimate)) error
	// NewJudge makes a judge who has seen what another one has; nil: nothing.
	NewJudge func(like Judge) Judge
	// State is what the API server has said; nil where the networks are those of a file.
	State func() network.Cluster
	// Teller has ktsnd know.
	Teller *Teller
	// Changed is called when Node or Network say something else than before. It must not block.
	Changed func()
	// NodeEvent makes an Event on the Node, NetworkEvent one on the TSNNode. FaultEvent makes one on the Node as well, of a fault or a step:
	// however many of these there are, none of the others is left out for it. None of them may block.
	NodeEvent, NetworkEvent, FaultEvent func(eventType, reason, sentence string)
	Metrics                             Metrics
	Now                                 func() time.Time
	Log                                 *slog.Logger

	again chan struct{}
	begin sync.Once

	// All but what mu guards is the goroutine's of Run.
	started  time.Time
	estimate *clock.Estimate
	// own judges for the node, networks for each network with spec.clock, by name.
	own      *judgement
	networks map[string]*judgement
	// complete tells whether networks are all that the node is on.
	complete bool
	// adopted tells whether the TSNNode was asked what an agent before this one said.
	adopted  bool
	timeline timeline
	faults   map[string]bool
	steps    stepNews

	mu sync.Mutex
	// node is what is to be said of the clock, nil as long as nothing is; conditions are those of networks.
	node       *v1alpha1.NodeClock
	conditions map[string]metav1.Condition
}

const (
	// silentAfter is how long the watch of the clock may say nothing.
	silentAfter = 5 * time.Second
	// settle is how long an agent that has just started may know nothing of the clock before it says so, which is longer than judges
	// want to look at a good one: what the agent before it said holds meanwhile, and ktsnd adds to the error by itself.
	settle = 5 * time.Second
	// watchAgain is when to watch again after a failure.
	watchAgain = time.Second
)

// Again has the networks be looked at again.
func (f *Follower) Again() {
	select {
	case f.signal() <- struct{}{}:
	default: // they will be
	}
}

func (f *Follower) signal() chan struct{} {
	f.begin.Do(func() { f.again = make(chan struct{}, 1) })
	return f.again
}

// Run follows the clock until ctx ends.
func (f *Follower) Run(ctx context.Context) error {
	estimates := make(chan clock.Estimate)
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { f.watch(ctx, estimates) })
	others.Go(func() { f.Teller.run(ctx) })
	f.started = f.Now()
	f.look()
	silence := time.NewTimer(silentAfter)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case estimate := <-estimates:
			silence.Reset(silentAfter)
			f.hear(&estimate)
		case <-silence.C:
			f.silent()
		case <-f.signal():
			f.look()
		}
	}
}

// watch goes on watching whatever happens.
func (f *Follower) watch(ctx context.Context, estimates chan<- clock.Estimate) {
	for ctx.Err() == nil {
		err := f.Watch(ctx, func(estimate clock.Estimate) {
			select {
			case estimates <- estimate:
			case <-ctx.Done():
			}
		})
		if ctx.Err() != nil {
			return
		}
		f.Log.Error("the watch of the node's clock has ended, and is begun anew", "error", err)
		_ = retry.Pause(ctx, watchAgain)
	}
}

// hear judges by a new estimate.
func (f *Follower) hear(estimate *clock.Estimate) {
	f.estimate = estimate
	f.look()
}

// silent is called when nothing was heard of the clock for long.
func (f *Follower) silent() {
	f.Log.Error("the watch of the node's clock says nothing", "for", silentAfter)
	f.estimate = nil
	f.look()
}

// look judges by what is known now.
func (f *Follower) look() {
	f.readNetworks()
	if f.estimate == nil && f.Now().Sub(f.started) < silentAfter {
		f.Teller.want(f.unjudged()) // nothing was heard yet
		return
	}
	f.judge()
	if f.settling() {
		f.Teller.want(f.unjudged())
		return
	}
	f.publish()
	f.Teller.want(f.wanted())
}

// judge asks all judges. One for a new network has seen what the node's has, so that its pods need not wait.
func (f *Follower) judge() {
	if f.own == nil {
		f.own = &judgement{judge: f.NewJudge(nil)}
	}
	for _, one := range f.networks {
		if one.judge == nil {
			one.judge = f.NewJudge(f.own.judge)
		}
		one.look(f.estimate, f.Now())
	}
	f.own.need = strictest(f.networks)
	f.own.look(f.estimate, f.Now())
}

// settling tells whether the agent has just started and nobody can say anything of the clock yet.
func (f *Follower) settling() bool {
	return f.own.verdict.State == clock.Unknown && f.own.said == "" && f.Now().Sub(f.started) < settle
}

// publish has others know what has changed.
func (f *Follower) publish() {
	f.Metrics.Clock(f.estimate, f.own.verdict.State)
	f.sayFaults()
	f.saySteps()
	f.sayNode()
	changed := f.timeline.add(f.own, f.estimate, f.Now())
	conditions := map[string]metav1.Condition{}
	for name, one := range f.networks {
		conditions[name] = one.condition()
		f.sayNetwork(name, one)
	}
	f.mu.Lock()
	changed = changed || !maps.Equal(f.conditions, conditions)
	f.node, f.conditions = f.timeline.current(), conditions
	f.mu.Unlock()
	if changed {
		f.Changed()
	}
}

// sayNode tells in log and Event that the node's clock is in another state.
func (f *Follower) sayNode() {
	before, now := f.own.said, f.own.verdict.State
	f.own.said = now
	if before == now {
		return
	}
	f.Log.Info("the node's clock", "state", now, "before", before, "reason", f.own.verdict.Reason, "sentence", f.own.sentence)
	// What an agent says first is news only to somebody who was told something else before.
	if before == "" && !f.timeline.differs(now) {
		return
	}
	f.NodeEvent(eventType(now), eventReason(now), sentenceOf(now, f.own))
}

func (f *Follower) sayNetwork(name string, one *judgement) {
	before, now := one.said, one.verdict.State
	one.said = now
	if before == now || before == "" {
		return
	}
	f.Log.Info("the clock of a network", "network", name, "state", now, "before", before, "reason", one.verdict.Reason)
	f.NetworkEvent(eventType(now), eventReason(now), "network "+name+": "+sentenceOf(now, one))
}

// sayFaults makes an Event of each fault in how the clock is kept that was not there before.
func (f *Follower) sayFaults() {
	faults := map[string]bool{}
	if f.estimate == nil {
		return
	}
	for _, fault := range f.estimate.Faults {
		faults[fault.Reason] = true
		if !f.faults[fault.Reason] {
			f.Log.Warn("the node's clock is not kept as it should be", "reason", fault.Reason, "sentence", fault.Sentence)
			f.FaultEvent(corev1.EventTypeWarning, fault.Reason, fault.Sentence)
		}
	}
	f.faults = faults
}

// Node is what is to be said of the clock; nil as long as nothing is. Nobody changes what is in it.
func (f *Follower) Node() *v1alpha1.NodeClock {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.node
}

// Network says whether the clock is good enough for a network with spec.clock. known is false as long as nobody can say.
func (f *Follower) Network(name string) (condition metav1.Condition, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	condition, known = f.conditions[name]
	return condition, known
}
