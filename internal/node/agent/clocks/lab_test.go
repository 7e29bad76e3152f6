// SPDX-License-Identifier: Apache-2.0

package clocks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// fakeJudge has no memory: a bound within the need is good.
type fakeJudge struct{}

func (fakeJudge) Look(need clock.Need, estimate clock.Estimate) clock.Verdict {
	switch {
	case estimate.Bound < 0:
		return clock.Verdict{State: clock.Unknown, Reason: "NoSource", Sentence: "nobody keeps the clock; start ptp4l"}
	case estimate.Bound > need.MaxError:
		return clock.Verdict{State: clock.Unsynchronized, Reason: "ErrorTooLarge", Sentence: fmt.Sprintf("its error may be %v; see ptp4l", estimate.Bound)}
	case !estimate.Lost.IsZero():
		return clock.Verdict{State: clock.Holdover, Reason: "PortLost", Sentence: "ptp4l lost its port"}
	}
	return clock.Verdict{State: clock.Synchronized, Reason: "Slave"}
}

// fakeKtsnd records the requests.
type fakeKtsnd struct {
	clock    control.ClockQuality
	networks map[uint32]control.ClockNeed
	// asked lists the requests since they were last looked at.
	asked []string
	// away is why nothing gets there, refuses what it says to all.
	away, refuses error
}

func (k *fakeKtsnd) ClockSet(_ context.Context, clock control.ClockQuality) error {
	k.asked = append(k.asked, fmt.Sprintf("clock %s %d", clock.State, clock.ErrorBoundNs))
	k.clock = clock
	return k.refuses
}

func (k *fakeKtsnd) NetworkClockSet(_ context.Context, vni uint32, need *control.ClockNeed) error {
	if k.refuses != nil {
		return k.refuses
	}
	if need == nil {
		k.asked = append(k.asked, fmt.Sprintf("network %d gone", vni))
		delete(k.networks, vni)
		return nil
	}
	k.asked = append(k.asked, fmt.Sprintf("network %d %v %s", vni, need.Good, need.OnLoss))
	k.networks[vni] = *need
	return nil
}

func (k *fakeKtsnd) NetworkClocks(context.Context) (all []control.NetworkClock, err error) {
	for vni, need := range k.networks {
		all = append(all, control.NetworkClock{VNI: vni, ClockNeed: need})
	}
	return all, k.refuses
}

// was returns what it was asked since the last time.
func (k *fakeKtsnd) calls() string {
	defer func() { k.asked = nil }()
	slices.Sort(k.asked)
	return strings.Join(k.asked, ", ")
}

// lab is a node with a clock.
type lab struct {
	*Follower
	t     *testing.T
	ktsnd *fakeKtsnd
	state network.Cluster
	now   time.Time
	// changes counts calls of Changed; events are those of the node, then those of networks.
	changes               int
	events, networkEvents []string
	figure                clock.State
}

func (l *lab) Clock(_ *clock.Estimate, state clock.State) { l.figure = state }

func newLab(t *testing.T, networks ...*v1alpha1.TSNNetwork) *lab {
	t.Helper()
	l := &lab{t: t, ktsnd: &fakeKtsnd{networks: map[uint32]control.ClockNeed{}}, now: time.Now()}
	l.state.Node = &v1alpha1.TSNNode{}
	l.setNetworks(networks...)
	l.Follower = l.agent()
	return l
}

// agent is one that has just been started.
func (l *lab) agent() *Follower {
	log := slog.New(slog.DiscardHandler)
	now := func() time.Time { return l.now }
	f := &Follower{
		NewJudge: func(Judge) Judge { return fakeJudge{} }, State: func() network.Cluster { return l.state },
		Changed: func() { l.changes++ }, Metrics: l, Now: now, Log: log,
		NodeEvent:    func(_, reason, sentence string) { l.events = append(l.events, reason+": "+sentence) },
		FaultEvent:   func(_, reason, sentence string) { l.events = append(l.events, reason+": "+sentence) },
		NetworkEvent: func(_, reason, sentence string) { l.networkEvents = append(l.networkEvents, reason+": "+sentence) },
		Updater: NewUpdater(func(ctx context.Context, ask func(context.Context, Ktsnd) error) error {
			if l.ktsnd.away != nil {
				return l.ktsnd.away
			}
			return ask(ctx, l.ktsnd)
		}, func() { l.changes++ }, log),
	}
	f.Updater.Now, f.started = now, l.now
	return f
}

// setNetworks has the node be on these.
func (l *lab) setNetworks(networks ...*v1alpha1.TSNNetwork) {
	l.state.Networks = nil
	for _, tsnNetwork := range networks {
		l.state.Networks = append(l.state.Networks, network.Joined{Part: v1alpha1.NodeNetwork{Name: tsnNetwork.Name}, Object: tsnNetwork})
	}
}

// after has the time pass, and the agent hear an estimate with a bound then.
func (l *lab) after(pause, bound time.Duration) {
	l.estimate(pause, clock.Estimate{Bound: bound, Source: clock.PTP, Grandmaster: "gm1"})
}

func (l *lab) estimate(pause time.Duration, estimate clock.Estimate) {
	l.t.Helper()
	l.now = l.now.Add(pause)
	estimate.At = l.now
	l.handleEstimate(&estimate)
	_ = l.Updater.update(l.t.Context()) // an error is said by what ktsnd was told
}

// aNetwork asks for an error of at most so much.
func newNetwork(name string, vni int32, maxError string) *v1alpha1.TSNNetwork {
	return &v1alpha1.TSNNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.TSNNetworkSpec{VNI: vni, Clock: &v1alpha1.ClockRequirement{MaxError: maxError, OnLoss: v1alpha1.OnLossHold}},
	}
}

// says is what is said of all networks.
func (l *lab) status() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(l.networks)) {
		condition, known := l.Network(name)
		if !known {
			all = append(all, name+" nothing")
			continue
		}
		all = append(all, fmt.Sprintf("%s %s %s", name, condition.Status, condition.Reason))
	}
	return strings.Join(all, ", ")
}

var errAway = errors.New("ktsnd does not answer")
