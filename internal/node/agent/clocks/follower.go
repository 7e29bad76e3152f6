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

// Judge evaluates estimates for a requirement. It keeps a history, so that a clock at its limit does not alternate
// between good and bad.
type Judge interface {
	Look(need clock.Need, estimate clock.Estimate) clock.Verdict
}

// Metrics records the state of the node's clock.
type Metrics interface {
	Clock(estimate *clock.Estimate, state clock.State)
}

// Follower follows the node's clock.
type Follower struct {
	// Watch calls report with an estimate once per second and after each change, until ctx ends.
	Watch func(ctx context.Context, hear func(clock.Estimate)) error
	// NewJudge returns a judge with the history of another one, or without history for nil.
	NewJudge func(like Judge) Judge
	// State returns the node's objects; nil if the networks come from a file.
	State func() network.Cluster
	// Updater updates ktsnd.
	Updater *Updater
	// Changed is called when the result of Node or Network has changed. It must not block.
	Changed func()
	// NodeEvent creates an Event on the Node, NetworkEvent one on the TSNNode. FaultEvent creates an Event on the Node
	// about a fault or a step; their number must not suppress other Events. None of them may block.
	NodeEvent, NetworkEvent, FaultEvent func(eventType, reason, sentence string)
	Metrics                             Metrics
	Now                                 func() time.Time
	Log                                 *slog.Logger

	trigger  chan struct{}
	initOnce sync.Once

	// Only the goroutine of Run uses the fields up to mu.
	started  time.Time
	estimate *clock.Estimate
	// nodeJudgement is that of the node, networks has one for each network with spec.clock, by name.
	nodeJudgement *judgement
	networks      map[string]*judgement
	// complete is false while networks may lack a network of the node.
	complete bool
	// adopted means that the status of a previous agent was taken from the TSNNode.
	adopted  bool
	timeline timeline
	faults   map[string]bool
	steps    stepReport

	mu sync.Mutex
	// node is the status of the clock, nil as long as there is none; conditions are those of networks.
	node       *v1alpha1.NodeClock
	conditions map[string]metav1.Condition
}

const (
	// silenceTimeout is how long the watch of the clock may report nothing.
	silenceTimeout = 5 * time.Second
	// settleTime is how long a new agent may know nothing about the clock before it says so. It is longer than a judge
	// observes a good clock; meanwhile the previous agent's status holds, and ktsnd increases the error by itself.
	settleTime = 5 * time.Second
	// watchRetryDelay is the time until a failed watch is restarted.
	watchRetryDelay = time.Second
)

// Trigger triggers an update with the present networks.
func (f *Follower) Trigger() {
	select {
	case f.signal() <- struct{}{}:
	default: // already triggered
	}
}

func (f *Follower) signal() chan struct{} {
	f.initOnce.Do(func() { f.trigger = make(chan struct{}, 1) })
	return f.trigger
}

// Run follows the clock until ctx ends.
func (f *Follower) Run(ctx context.Context) error {
	estimates := make(chan clock.Estimate)
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { f.watch(ctx, estimates) })
	others.Go(func() { f.Updater.run(ctx) })
	f.started = f.Now()
	f.update()
	silence := time.NewTimer(silenceTimeout)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case estimate := <-estimates:
			silence.Reset(silenceTimeout)
			f.handleEstimate(&estimate)
		case <-silence.C:
			f.handleSilence()
		case <-f.signal():
			f.update()
		}
	}
}

// watch restarts Watch when it fails.
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
		f.Log.Error("the watch of the node's clock has ended; restarting it", "error", err)
		_ = retry.Pause(ctx, watchRetryDelay)
	}
}

// handleEstimate updates with a new estimate.
func (f *Follower) handleEstimate(estimate *clock.Estimate) {
	f.estimate = estimate
	f.update()
}

// handleSilence updates without an estimate, after Watch has been silent for silenceTimeout.
func (f *Follower) handleSilence() {
	f.Log.Error("the watch of the node's clock is silent", "for", silenceTimeout)
	f.estimate = nil
	f.update()
}

// update judges the clock by the present estimate and networks.
func (f *Follower) update() {
	f.readNetworks()
	if f.estimate == nil && f.Now().Sub(f.started) < silenceTimeout {
		f.Updater.set(f.unjudged()) // there is no estimate yet
		return
	}
	f.judgeAll()
	if f.settling() {
		f.Updater.set(f.unjudged())
		return
	}
	f.publish()
	f.Updater.set(f.desired())
}

// judgeAll updates all judgements. The judge of a new network gets the history of the node's judge, so that its pods
// need not wait.
func (f *Follower) judgeAll() {
	if f.nodeJudgement == nil {
		f.nodeJudgement = &judgement{judge: f.NewJudge(nil)}
	}
	for _, j := range f.networks {
		if j.judge == nil {
			j.judge = f.NewJudge(f.nodeJudgement.judge)
		}
		j.update(f.estimate, f.Now())
	}
	f.nodeJudgement.need = strictest(f.networks)
	f.nodeJudgement.update(f.estimate, f.Now())
}

// settling reports whether the agent has just started and cannot judge the clock yet.
func (f *Follower) settling() bool {
	return f.nodeJudgement.verdict.State == clock.Unknown && f.nodeJudgement.reported == "" && f.Now().Sub(f.started) < settleTime
}

// publish publishes changes.
func (f *Follower) publish() {
	f.Metrics.Clock(f.estimate, f.nodeJudgement.verdict.State)
	f.reportFaults()
	f.reportSteps()
	f.reportNode()
	changed := f.timeline.add(f.nodeJudgement, f.estimate, f.Now())
	conditions := map[string]metav1.Condition{}
	for name, j := range f.networks {
		conditions[name] = j.condition()
		f.reportNetwork(name, j)
	}
	f.mu.Lock()
	changed = changed || !maps.Equal(f.conditions, conditions)
	f.node, f.conditions = f.timeline.current(), conditions
	f.mu.Unlock()
	if changed {
		f.Changed()
	}
}

// reportNode reports a new state of the node's clock in log and Event.
func (f *Follower) reportNode() {
	before, now := f.nodeJudgement.reported, f.nodeJudgement.verdict.State
	f.nodeJudgement.reported = now
	if before == now {
		return
	}
	f.Log.Info("the state of the node's clock has changed", "state", now, "before", before, "reason", f.nodeJudgement.verdict.Reason, "sentence", f.nodeJudgement.message)
	// The first state of this agent is an Event only if the previous agent reported another one.
	if before == "" && !f.timeline.hasOtherState(now) {
		return
	}
	f.NodeEvent(eventType(now), eventReason(now), eventMessage(now, f.nodeJudgement))
}

func (f *Follower) reportNetwork(name string, j *judgement) {
	before, now := j.reported, j.verdict.State
	j.reported = now
	if before == now || before == "" {
		return
	}
	f.Log.Info("the state of a network's clock has changed", "network", name, "state", now, "before", before, "reason", j.verdict.Reason)
	f.NetworkEvent(eventType(now), eventReason(now), "network "+name+": "+eventMessage(now, j))
}

// reportFaults creates an Event for each new fault.
func (f *Follower) reportFaults() {
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

// Node returns the status of the clock, nil as long as there is none. Callers must not modify it.
func (f *Follower) Node() *v1alpha1.NodeClock {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.node
}

// Network returns the condition of the clock for a network with spec.clock; known is false until it was judged.
func (f *Follower) Network(name string) (condition metav1.Condition, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	condition, known = f.conditions[name]
	return condition, known
}
