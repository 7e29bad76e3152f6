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

// judgement is the state of the clock for one network, or for the node.
type judgement struct {
	need  clock.Need
	judge Judge
	// vni, created, onLoss and fault are those of a network; fault is why its spec.clock is invalid.
	vni     uint32
	created time.Time
	onLoss  string
	fault   error

	verdict clock.Verdict
	// message describes the verdict and the faults as of writtenAt; subject is what it is about.
	message   string
	subject   subject
	writtenAt time.Time
	// changedSince is since when the message would be another; zero while it would be the same.
	changedSince time.Time
	// reported is the last reported state, "" for none.
	reported clock.State
}

// Reasons in status.clock.history of a TSNNode, and of Events about a node's clock.
const (
	// reasonSilent : the agent gets no information about the clock; see its log.
	reasonSilent = "WatchSilent"
	// reasonInvalid : spec.clock of the network is invalid; the message has the reason.
	reasonInvalid = "SpecInvalid"
)

const silentMessage = "the agent gets no information about the node's clock; see its log"

// update judges the clock; without an estimate its state is unknown.
func (j *judgement) update(estimate *clock.Estimate, now time.Time) {
	switch {
	case j.fault != nil:
		j.verdict = clock.Verdict{State: clock.Unknown, Since: now, Reason: reasonInvalid, Sentence: j.fault.Error()}
	case estimate == nil:
		j.verdict = clock.Verdict{State: clock.Unknown, Since: now, Reason: reasonSilent, Sentence: silentMessage}
	default:
		j.verdict = j.judge.Look(j.need, *estimate)
	}
	j.updateMessage(estimate, now)
}

// condition returns the condition for the network's status.
func (j *judgement) condition() metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionClockSynchronized, Status: metav1.ConditionFalse, Reason: eventReason(j.verdict.State), Message: j.message,
	}
	if j.verdict.State.Good() {
		condition.Status = metav1.ConditionTrue
	}
	if j.verdict.State == clock.Synchronized {
		condition.Reason = v1alpha1.ReasonAsAsked
	}
	return condition
}

// stateOf returns the state that a condition describes, "" for none.
func stateOf(condition *metav1.Condition) clock.State {
	if condition == nil {
		return ""
	}
	return map[string]clock.State{
		v1alpha1.ReasonAsAsked: clock.Synchronized, v1alpha1.ReasonClockHoldover: clock.Holdover,
		v1alpha1.ReasonClockUnsynchronized: clock.Unsynchronized, v1alpha1.ReasonClockUnknown: clock.Unknown,
	}[condition.Reason]
}

// eventReason returns the reason of Events, and of conditions that are not true.
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

// NewJudge returns a judge of package clock with the history of another one.
func NewJudge(like Judge) Judge {
	judge := &clock.Judge{}
	if other, ok := like.(*clock.Judge); ok {
		*judge = *other
	}
	return judge
}

// strictest returns the requirement by which the node's clock is judged.
func strictest(networks map[string]*judgement) clock.Need {
	need, anyNeed := clock.Need{MaxError: tsnnetwork.DefaultMaxError, Holdover: tsnnetwork.DefaultHoldover}, false
	for _, j := range networks {
		switch {
		case j.fault != nil:
		case !anyNeed:
			need, anyNeed = j.need, true
		default:
			need.MaxError, need.Holdover = min(need.MaxError, j.need.MaxError), min(need.Holdover, j.need.Holdover)
		}
	}
	return need
}
