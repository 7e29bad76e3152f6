// SPDX-License-Identifier: Apache-2.0

package clocks

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// readNetworks updates the requirements of the networks. It keeps the previous requirement of a network that is not
// known.
func (f *Follower) readNetworks() {
	if f.State == nil {
		f.complete = true
		return
	}
	state := f.State()
	if state.Unknown != nil {
		f.complete = false
		return
	}
	if !f.adopted {
		f.adopted = true
		f.timeline.adopt(state.Node.Status.Clock)
	}
	before := f.networks
	f.networks, f.complete = map[string]*judgement{}, true
	for i := range state.Networks {
		name, object := state.Networks[i].Part.Name, state.Networks[i].Object
		switch {
		case object != nil && object.Spec.Clock != nil:
			f.networks[name] = newJudgement(object, before[name], state.Node)
		case object == nil:
			f.complete = false
			if before[name] != nil {
				f.networks[name] = before[name]
			}
		}
	}
}

// newJudgement returns the judgement of a network, with the previous judge even if the requirement has changed.
func newJudgement(object *v1alpha1.TSNNetwork, before *judgement, node *v1alpha1.TSNNode) *judgement {
	requirement, _, err := tsnnetwork.ClockOf(object)
	j := before
	if j == nil {
		j = &judgement{reported: reportedState(object.Name, node)}
	}
	j.need = clock.Need{MaxError: requirement.MaxError, Holdover: requirement.Holdover}
	j.vni, j.created, j.onLoss, j.fault = uint32(object.Spec.VNI), object.CreationTimestamp.Time, requirement.OnLoss, err
	return j
}

// reportedState returns the state that a previous agent reported for a network, "" for none.
func reportedState(network string, node *v1alpha1.TSNNode) clock.State {
	_, status := tsnnetwork.OnNode(node, network)
	if status == nil {
		return ""
	}
	return stateOf(meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionClockSynchronized))
}

// desired returns the desired state of ktsnd.
func (f *Follower) desired() *desiredState {
	desired := &desiredState{complete: f.complete, networks: map[uint32]control.ClockNeed{}}
	if f.estimate != nil {
		desired.clock = &clockReport{state: f.nodeJudgement.verdict.State, bound: f.estimate.Bound, driftPPB: f.estimate.DriftPPB, measuredAt: f.estimate.At}
	} else if f.nodeJudgement != nil {
		desired.clock = &clockReport{state: clock.Unknown, bound: -1, measuredAt: f.Now()}
	}
	f.addNeeds(desired, func(j *judgement) (good bool, reason string) {
		return j.verdict.State.Good(), j.message
	})
	return desired
}

// unjudgedMessage is why a network's clock is not good before the first judgement.
const unjudgedMessage = "the agent has not judged the clock yet"

// unjudged returns the desired state before the first judgement: a new ktsnd must not send by the clock, and a running
// ktsnd keeps the state from a previous agent.
func (f *Follower) unjudged() *desiredState {
	desired := &desiredState{unjudged: true, networks: map[uint32]control.ClockNeed{}}
	f.addNeeds(desired, func(*judgement) (bool, string) { return false, unjudgedMessage })
	return desired
}

// addNeeds adds the requirements of networks with the verdict for each.
func (f *Follower) addNeeds(desired *desiredState, verdict func(j *judgement) (good bool, reason string)) {
	for _, name := range f.oldestFirst() {
		j := f.networks[name]
		if _, taken := desired.networks[j.vni]; taken {
			continue // the oldest network with a VNI counts, as everywhere
		}
		good, reason := verdict(j)
		need := control.ClockNeed{
			MaxErrorNs: j.need.MaxError.Nanoseconds(), OnLoss: control.OnClockLoss(strings.ToLower(j.onLoss)), Good: good,
		}
		if !need.Good {
			need.Reason = tsnnetwork.Shorten(reason, maxReasonBytes)
		}
		desired.networks[j.vni] = need
	}
}

// oldestFirst returns the names of the networks in the order of their creation.
func (f *Follower) oldestFirst() []string {
	return slices.SortedFunc(maps.Keys(f.networks), func(a, b string) int {
		return cmp.Or(f.networks[a].created.Compare(f.networks[b].created), strings.Compare(a, b))
	})
}
