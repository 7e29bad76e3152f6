// SPDX-License-Identifier: Apache-2.0

package clocks

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

const (
	// maxHistory and maxMessageBytes are the API's limits; Shorten adds three bytes.
	maxHistory      = 16
	maxMessageBytes = 512 - len("...")
	// boundInterval is the least time between two writes of a smaller bound, another source or another number of steps
	// in the same state. A larger bound is written at once, and stays until the bound is much smaller.
	boundInterval = 30 * time.Second
	// boundShrinkFactor is the factor by which a bound must shrink to be written.
	boundShrinkFactor = 10
)

// timeline is the status of the node's clock with its history. It continues that of a previous agent.
type timeline struct {
	// node is immutable; it is replaced when the status changes.
	node *v1alpha1.NodeClock
	// boundAt is when the bound was last written.
	boundAt time.Time
	// sourceAt is when the fields of addSource last changed in the same state.
	sourceAt time.Time
	// steps is the number that the watch has counted, unreportedSteps the part of it that is not in node yet.
	steps           uint64
	unreportedSteps int64
}

// adopt takes over the status of a previous agent; may be nil.
func (t *timeline) adopt(before *v1alpha1.NodeClock) {
	switch {
	case before == nil:
	case t.node == nil:
		t.node = before.DeepCopy()
	default:
		node := t.node.DeepCopy()
		// The first state of this agent is not a transition if it is the previous agent's last.
		if oldest := len(node.History) - 1; oldest >= 0 && node.History[oldest].State == before.State {
			if node.History = node.History[:oldest]; oldest == 0 {
				node.Since = before.Since
			}
		}
		node.History = bounded(append(node.History, before.DeepCopy().History...))
		node.Steps += before.Steps
		t.node = node
	}
}

// hasOtherState reports whether the last reported state, of this agent or the previous one, is another one.
func (t *timeline) hasOtherState(state clock.State) bool {
	return t.node != nil && t.node.State != string(state)
}

// current returns the present status.
func (t *timeline) current() *v1alpha1.NodeClock { return t.node }

// add applies a judgement of the node's clock and reports whether the status has changed.
func (t *timeline) add(j *judgement, estimate *clock.Estimate, now time.Time) (changed bool) {
	next := &v1alpha1.NodeClock{}
	if t.node != nil {
		next = t.node.DeepCopy()
	}
	next.Message = tsnnetwork.Shorten(j.message, maxMessageBytes)
	stateChanged := t.node == nil || next.State != string(j.verdict.State)
	bound := time.Duration(-1)
	if estimate != nil {
		bound = estimate.Bound
		t.addSource(next, estimate, stateChanged, now)
	}
	if stateChanged {
		next.State, next.Since = string(j.verdict.State), metav1.NewTime(now.Truncate(time.Second))
		next.History = bounded(slices.Insert(next.History, 0, v1alpha1.ClockTransition{
			Time: metav1.NewMicroTime(now.Truncate(time.Microsecond)), State: next.State, Reason: j.verdict.Reason, Grandmaster: next.Grandmaster,
		}))
	}
	if stateChanged || larger(next.ErrorBoundNanoseconds, bound) || now.Sub(t.boundAt) >= boundInterval && muchLess(next.ErrorBoundNanoseconds, bound) {
		next.ErrorBoundNanoseconds, t.boundAt = rounded(bound), now
	}
	if t.node != nil && equality.Semantic.DeepEqual(t.node, next) {
		return false
	}
	t.node = next
	return true
}

// lostSince returns when the clock lost its source, in whole seconds as in the API. An earlier reported time holds: a
// new agent only knows the start of its own observation.
func lostSince(reported *metav1.Time, lost time.Time) *metav1.Time {
	switch {
	case lost.IsZero():
		return nil
	case reported != nil && !reported.After(lost):
		return reported
	}
	return &metav1.Time{Time: lost.Truncate(time.Second)}
}

// addSource sets the source of the clock and the number of its steps. In one state it accepts one change per
// boundInterval.
func (t *timeline) addSource(nodeClock *v1alpha1.NodeClock, estimate *clock.Estimate, stateChanged bool, now time.Time) {
	next := *nodeClock
	next.Source, next.Grandmaster, next.Steps = string(estimate.Source), estimate.Grandmaster, nodeClock.Steps+t.unreportedSteps
	next.TAIOffset, next.LostSince = new(int32(estimate.TAIOffset)), lostSince(nodeClock.LostSince, estimate.Lost)
	if !stateChanged {
		if equality.Semantic.DeepEqual(nodeClock, &next) || now.Sub(t.sourceAt) < boundInterval {
			return
		}
		t.sourceAt = now
	}
	*nodeClock, t.unreportedSteps = next, 0
}

// countSteps returns the number of steps since the last estimate. A restarted watch counts from zero.
func (t *timeline) countSteps(counted uint64) int64 {
	before := t.steps
	t.steps = counted
	if counted < before {
		before = 0
	}
	since := int64(counted - before)
	t.unreportedSteps += since
	return since
}

func bounded(history []v1alpha1.ClockTransition) []v1alpha1.ClockTransition {
	return history[:min(len(history), maxHistory)]
}

// larger reports whether a bound is larger than the reported one. An unknown bound (below zero) is the largest.
func larger(reported *int64, bound time.Duration) bool {
	return reported != nil && (bound < 0 || bound.Nanoseconds() > *reported)
}

func muchLess(reported *int64, bound time.Duration) bool {
	return bound >= 0 && (reported == nil || bound.Nanoseconds() < *reported/boundShrinkFactor)
}

// rounded rounds a bound up to 1, 2 or 5 times a power of ten; nil for an unknown bound.
func rounded(bound time.Duration) *int64 {
	if bound < 0 {
		return nil
	}
	for power := int64(1); ; power *= 10 {
		for _, digit := range []int64{1, 2, 5} {
			if value := digit * power; value >= bound.Nanoseconds() || power > maxRounded {
				return &value
			}
		}
	}
}

// maxRounded is a power of ten far above any error of a clock: 11 days in nanoseconds.
const maxRounded = 1e15

// stepEventInterval is the least time between two Events about steps: a clock that two programs set is stepped
// continually.
const stepEventInterval = time.Minute

// stepReport counts the steps since the last Event at reportedAt.
type stepReport struct {
	count      int64
	reportedAt time.Time
}

// reportSteps creates an Event about the steps since the last one.
func (f *Follower) reportSteps() {
	if f.estimate == nil {
		return
	}
	if more := f.timeline.countSteps(f.estimate.Steps); more > 0 {
		f.Log.Warn("the node's clock was set", "by", f.estimate.LastStep, "times", more)
		f.steps.count += more
	}
	now := f.Now()
	if f.steps.count == 0 || now.Sub(f.steps.reportedAt) < stepEventInterval {
		return
	}
	f.FaultEvent(corev1.EventTypeWarning, v1alpha1.ReasonClockStepped, stepMessage(f.steps.count, f.estimate.LastStep))
	f.steps = stepReport{reportedAt: now}
}

// stepMessage describes the steps and their effect on schedules.
func stepMessage(times int64, by time.Duration) string {
	direction := "forward"
	if by < 0 {
		direction, by = "back", -by
	}
	if times > 1 {
		return fmt.Sprintf("the clock was stepped %d times, the last time %s by %v; messages at these moments left early or late, and "+
			"schedules restart; check which program sets it besides its source", times, direction, by)
	}
	return fmt.Sprintf("the clock was stepped %s by %v; messages at this moment left early or late by as much, and schedules restart", direction, by)
}
