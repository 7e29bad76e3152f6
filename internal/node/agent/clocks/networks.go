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

// readNetworks takes what the networks ask for now. Of a network that is not known it keeps what it asked for before.
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
		name, about := state.Networks[i].Part.Name, state.Networks[i].Object
		switch {
		case about != nil && about.Spec.Clock != nil:
			f.networks[name] = asked(about, before[name], state.Node)
		case about == nil:
			f.complete = false
			if before[name] != nil {
				f.networks[name] = before[name]
			}
		}
	}
}

// asked is the judgement of a network, whose judge remembers what it saw while the network asked for something else.
func asked(about *v1alpha1.TSNNetwork, before *judgement, node *v1alpha1.TSNNode) *judgement {
	wanted, _, err := tsnnetwork.ClockOf(about)
	made := before
	if made == nil {
		made = &judgement{said: saidBefore(about.Name, node)}
	}
	made.need = clock.Need{MaxError: wanted.MaxError, Holdover: wanted.Holdover}
	made.vni, made.created, made.onLoss, made.fault = uint32(about.Spec.VNI), about.CreationTimestamp.Time, wanted.OnLoss, err
	return made
}

// saidBefore is the state that an agent before this one said for a network, "" if none.
func saidBefore(network string, node *v1alpha1.TSNNode) clock.State {
	_, status := tsnnetwork.OnNode(node, network)
	if status == nil {
		return ""
	}
	return stateOf(meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionClockSynchronized))
}

// wanted is what ktsnd is to know.
func (f *Follower) wanted() *wanted {
	all := &wanted{complete: f.complete, networks: map[uint32]control.ClockNeed{}}
	if f.estimate != nil {
		all.clock = &told{state: f.own.verdict.State, bound: f.estimate.Bound, driftPPB: f.estimate.DriftPPB, at: f.estimate.At}
	} else if f.own != nil {
		all.clock = &told{state: clock.Unknown, bound: -1, at: f.Now()}
	}
	f.addNeeds(all, func(one *judgement) (good bool, reason string) {
		return one.verdict.State.Good(), one.sentence
	})
	return all
}

// unjudgedSaid is why a network's clock is not good before anybody could judge it.
const unjudgedSaid = "the agent has not judged the clock yet"

// unjudged is what ktsnd is to know as long as nobody can say anything of the clock: one that has just been started, too, sends nothing
// by it. What another agent said holds.
func (f *Follower) unjudged() *wanted {
	all := &wanted{unjudged: true, networks: map[uint32]control.ClockNeed{}}
	f.addNeeds(all, func(*judgement) (bool, string) { return false, unjudgedSaid })
	return all
}

// addNeeds adds what networks ask for, with what judged says of each.
func (f *Follower) addNeeds(all *wanted, judged func(one *judgement) (good bool, reason string)) {
	for _, name := range f.oldestFirst() {
		one := f.networks[name]
		if _, taken := all.networks[one.vni]; taken {
			continue // of networks that have a VNI in common the oldest counts, as it does everywhere
		}
		good, reason := judged(one)
		need := control.ClockNeed{
			MaxErrorNs: one.need.MaxError.Nanoseconds(), OnLoss: control.OnClockLoss(strings.ToLower(one.onLoss)), Good: good,
		}
		if !need.Good {
			need.Reason = tsnnetwork.Shorten(reason, mostOfReason)
		}
		all.networks[one.vni] = need
	}
}

// oldestFirst are the names of the networks in the order of their creation.
func (f *Follower) oldestFirst() []string {
	return slices.SortedFunc(maps.Keys(f.networks), func(a, b string) int {
		return cmp.Or(f.networks[a].created.Compare(f.networks[b].created), strings.Compare(a, b))
	})
}
