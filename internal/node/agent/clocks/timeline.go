// SPDX-License-Identifier: Apache-2.0

package clocks

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

const (
	// mostOfHistory and mostOfMessage are the API's limits; Shorten adds three bytes.
	mostOfHistory = 16
	mostOfMessage = 512 - len("...")
	// boundAgain is how often a bound that is less is written while nothing else changes, and how often another source or another number
	// of steps is, in the same state. A larger bound is written at once: it then stays until it is much less.
	boundAgain = 30 * time.Second
	// boundMuchLess is by how many times a bound must have become less to be written.
	boundMuchLess = 10
)

// timeline is what is said of the node's clock, with what was said before. It goes on where an agent before this one ended.
type timeline struct {
	// node is replaced whenever it changes, and what is in it never changes.
	node *v1alpha1.NodeClock
	// boundAt is when the bound was last set.
	boundAt time.Time
	// sourceAt is when what addSource takes was last changed in the same state.
	sourceAt time.Time
	// steps are those that the watch has counted so far, unsaid those of them that are not in node yet.
	steps  uint64
	unsaid int64
}

// adopt takes what an agent before this one said, nil if nothing.
func (t *timeline) adopt(before *v1alpha1.NodeClock) {
	switch {
	case before == nil:
	case t.node == nil:
		t.node = before.DeepCopy()
	default:
		node := t.node.DeepCopy()
		// What this agent said first is no change if it was so before.
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

// differs tells whether another state than this one was said last, by this agent or the one before it.
func (t *timeline) differs(state clock.State) bool {
	return t.node != nil && t.node.State != string(state)
}

// current is what is to be said.
func (t *timeline) current() *v1alpha1.NodeClock { return t.node }

// add takes a judgement of the node's clock. changed tells whether something else is to be said than before.
func (t *timeline) add(of *judgement, estimate *clock.Estimate, now time.Time) (changed bool) {
	next := &v1alpha1.NodeClock{}
	if t.node != nil {
		next = t.node.DeepCopy()
	}
	next.Message = tsnnetwork.Shorten(of.sentence, mostOfMessage)
	another := t.node == nil || next.State != string(of.verdict.State)
	bound := time.Duration(-1)
	if estimate != nil {
		bound = estimate.Bound
		t.addSource(next, estimate, another, now)
	}
	if another {
		next.State, next.Since = string(of.verdict.State), metav1.NewTime(now.Truncate(time.Second))
		next.History = bounded(slices.Insert(next.History, 0, v1alpha1.ClockTransition{
			Time: metav1.NewMicroTime(now.Truncate(time.Microsecond)), State: next.State, Reason: of.verdict.Reason, Grandmaster: next.Grandmaster,
		}))
	}
	if another || larger(next.ErrorBoundNanoseconds, bound) || now.Sub(t.boundAt) >= boundAgain && muchLess(next.ErrorBoundNanoseconds, bound) {
		next.ErrorBoundNanoseconds, t.boundAt = rounded(bound), now
	}
	if t.node != nil && equality.Semantic.DeepEqual(t.node, next) {
		return false
	}
	t.node = next
	return true
}

// lostSince is when the clock was left alone, in whole seconds as the API has it. It stays what was said of one loss: an agent that
// begins anew knows only since when it has looked.
func lostSince(said *metav1.Time, lost time.Time) *metav1.Time {
	switch {
	case lost.IsZero():
		return nil
	case said != nil && !said.After(lost):
		return said
	}
	return &metav1.Time{Time: lost.Truncate(time.Second)}
}

// addSource takes who keeps the clock, and how often it was set. Of what changes all the time in one state it takes no more than one
// change every boundAgain.
func (t *timeline) addSource(nodeClock *v1alpha1.NodeClock, estimate *clock.Estimate, another bool, now time.Time) {
	next := *nodeClock
	next.Source, next.Grandmaster, next.Steps = string(estimate.Source), estimate.Grandmaster, nodeClock.Steps+t.unsaid
	next.TAIOffset, next.LostSince = new(int32(estimate.TAIOffset)), lostSince(nodeClock.LostSince, estimate.Lost)
	if !another {
		if equality.Semantic.DeepEqual(nodeClock, &next) || now.Sub(t.sourceAt) < boundAgain {
			return
		}
		t.sourceAt = now
	}
	*nodeClock, t.unsaid = next, 0
}

// countSteps is how many steps there are since the last estimate. A watch that was begun anew counts from the beginning.
func (t *timeline) countSteps(counted uint64) int64 {
	before := t.steps
	t.steps = counted
	if counted < before {
		before = 0
	}
	since := int64(counted - before)
	t.unsaid += since
	return since
}

func bounded(history []v1alpha1.ClockTransition) []v1alpha1.ClockTransition {
	return history[:min(len(history), mostOfHistory)]
}

// larger tells whether a bound is larger than what was said; one that is not known is the largest.
func larger(said *int64, bound time.Duration) bool {
	return said != nil && (bound < 0 || bound.Nanoseconds() > *said)
}

func muchLess(said *int64, bound time.Duration) bool {
	return bound >= 0 && (said == nil || bound.Nanoseconds() < *said/boundMuchLess)
}

// rounded is the next 1, 2 or 5 times a power of ten that is not less; nil for a bound that is not known.
func rounded(bound time.Duration) *int64 {
	if bound < 0 {
		return nil
	}
	for power := int64(1); ; power *= 10 {
		for _, digit := range []int64{1, 2, 5} {
			if made := digit * power; made >= bound.Nanoseconds() || power > mostRounded {
				return &made
			}
		}
	}
}

// mostRounded is a power of ten far above any error of a clock, 11 days.
const mostRounded = 1e15
