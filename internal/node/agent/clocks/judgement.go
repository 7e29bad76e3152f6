// SPDX-License-Identifier: Apache-2.0

package clocks

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// judgement is what holds of the clock for one network, or for the node.
type judgement struct {
	need  clock.Need
	judge Judge
	// vni, created, onLoss and fault are a network's; fault is why its spec.clock cannot be read.
	vni     uint32
	created time.Time
	onLoss  string
	fault   error

	verdict clock.Verdict
	// sentence is that of the verdict and of the faults, as it was written at writtenAt; about is what it was about then.
	sentence  string
	about     subject
	writtenAt time.Time
	// otherSince is since when another sentence would be written; zero while the same would be.
	otherSince time.Time
	// said is the state that was told last, "" for none.
	said clock.State
}

const (
	reasonSilent  = "WatchSilent"
	reasonInvalid = "SpecInvalid"
	silentSaid    = "the agent hears nothing of the node's clock; see its log"
)

// look judges; without an estimate nobody knows anything.
func (j *judgement) look(estimate *clock.Estimate, now time.Time) {
	switch {
	case j.fault != nil:
		j.verdict = clock.Verdict{State: clock.Unknown, Since: now, Reason: reasonInvalid, Sentence: j.fault.Error()}
	case estimate == nil:
		j.verdict = clock.Verdict{State: clock.Unknown, Since: now, Reason: reasonSilent, Sentence: silentSaid}
	default:
		j.verdict = j.judge.Look(j.need, *estimate)
	}
	j.write(estimate, now)
}

// condition is what is said in the network's status.
func (j *judgement) condition() metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionClockSynchronized, Status: metav1.ConditionFalse, Reason: eventReason(j.verdict.State), Message: j.sentence,
	}
	if j.verdict.State.Good() {
		condition.Status = metav1.ConditionTrue
	}
	if j.verdict.State == clock.Synchronized {
		condition.Reason = v1alpha1.ReasonAsAsked
	}
	return condition
}

// stateOf is the state that a condition was said for, "" if for none.
func stateOf(condition *metav1.Condition) clock.State {
	if condition == nil {
		return ""
	}
	return map[string]clock.State{
		v1alpha1.ReasonAsAsked: clock.Synchronized, v1alpha1.ReasonClockHoldover: clock.Holdover,
		v1alpha1.ReasonClockUnsynchronized: clock.Unsynchronized, v1alpha1.ReasonClockUnknown: clock.Unknown,
	}[condition.Reason]
}

// eventReason is that of an Event, and of conditions that are not as asked.
func eventReason(state clock.State) string {
	switch state {
	case clock.Synchronized:
		return v1alpha1.ReasonClockSynchronized
	case clock.Holdover:
		return v1alpha1.ReasonClockHoldover
	case clock.Unsynchronized:
		return v1alpha1.ReasonClockUnsynchronized
	}
	return v1alpha1.ReasonClockUnknown
}

func eventType(state clock.State) string {
	if state == clock.Synchronized {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

// NewJudge makes a judge of package clock who has seen what another one has.
func NewJudge(like Judge) Judge {
	judge := &clock.Judge{}
	if another, is := like.(*clock.Judge); is {
		*judge = *another
	}
	return judge
}

// strictest is what the node's own clock is judged by.
func strictest(networks map[string]*judgement) clock.Need {
	need, asked := clock.Need{MaxError: tsnnetwork.DefaultMaxError, Holdover: tsnnetwork.DefaultHoldover}, false
	for _, one := range networks {
		switch {
		case one.fault != nil:
		case !asked:
			need, asked = one.need, true
		default:
			need.MaxError, need.Holdover = min(need.MaxError, one.need.MaxError), min(need.Holdover, one.need.Holdover)
		}
	}
	return need
}
