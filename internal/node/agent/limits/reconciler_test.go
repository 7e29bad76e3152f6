// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/repeat"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// fakeKtsnd remembers what it is told.
type fakeKtsnd struct {
	given  map[uint32]control.GivenLimits
	sets   int
	refuse error
}

func (k *fakeKtsnd) NetworkLimits(context.Context) ([]control.NetworkLimits, error) {
	var all []control.NetworkLimits
	for vni, limits := range k.given {
		all = append(all, control.NetworkLimits{VNI: vni, Limits: limits})
	}
	return all, nil
}

func (k *fakeKtsnd) NetworkLimitsSet(_ context.Context, limits control.NetworkLimits) error {
	if k.refuse != nil {
		return k.refuse
	}
	k.sets++
	if !limits.Limits.Any() {
		delete(k.given, limits.VNI)
		return nil
	}
	k.given[limits.VNI] = limits.Limits
	return nil
}

// says is what ktsnd knows of a network.
func (k *fakeKtsnd) says(vni uint32) string {
	limits, known := k.given[vni]
	if !known {
		return ""
	}
	return limits.String()
}

type lab struct {
	*Reconciler
	t        *testing.T
	ktsnd    *fakeKtsnd
	state    network.Cluster
	reported error
}

func newLab(t *testing.T, networks ...*v1alpha1.TSNNetwork) *lab {
	t.Helper()
	l := &lab{t: t, ktsnd: &fakeKtsnd{given: map[uint32]control.GivenLimits{}}}
	for _, about := range networks {
		l.state.Networks = append(l.state.Networks, network.Joined{Part: v1alpha1.NodeNetwork{Name: about.Name}, Object: about})
	}
	l.Reconciler = &Reconciler{
		State: func() network.Cluster { return l.state }, Log: slog.New(slog.DiscardHandler),
		Do:     func(ctx context.Context, ask func(context.Context, Ktsnd) error) error { return ask(ctx, l.ktsnd) },
		Report: func(err error) { l.reported = err },
	}
	return l
}

// look reconciles, and returns when to look again.
func (l *lab) look() time.Duration {
	l.t.Helper()
	result, err := l.Reconcile(l.t.Context(), reconcile.Request{})
	if err != nil {
		l.t.Fatal(err)
	}
	return result.RequeueAfter
}

func numbered(value int32) *int32 { return &value }

func limited(name string, vni int32, made int64, limits *v1alpha1.PodLimits) *v1alpha1.TSNNetwork {
	return &v1alpha1.TSNNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(made, 0)},
		Spec:       v1alpha1.TSNNetworkSpec{VNI: vni, Limits: limits},
	}
}

func TestKtsndKnowsTheLimitsOfTheNodesNetworks(t *testing.T) {
	l := newLab(t,
		limited("all", 1, 1, &v1alpha1.PodLimits{Processes: numbered(4), Sockets: numbered(5), Memory: numbered(6), Pending: numbered(64),
			Rate: numbered(0), Doorbells: numbered(7), Horizon: "1500ms"}),
		limited("some", 2, 1, &v1alpha1.PodLimits{Rate: numbered(2000)}),
		limited("empty", 3, 1, &v1alpha1.PodLimits{}),
		limited("none", 4, 1, nil))
	// Those that somebody gave by hand.
	rate := uint64(1)
	l.ktsnd.given[2], l.ktsnd.given[9] = control.GivenLimits{DoorbellRate: &rate}, control.GivenLimits{Sockets: &rate}
	if again := l.look(); l.reported != nil || again != repeat.Every {
		t.Fatalf("%v, again in %v", l.reported, again)
	}
	for vni, want := range map[uint32]string{
		1: `{"processes":4,"sockets":5,"ring-memory-bytes":6291456,"pending":64,"message-rate":0,"doorbell-rate":7,"horizon-ns":1500000000}`,
		2: `{"message-rate":2000}`, 3: "", 4: "", 9: "",
	} {
		if got := l.ktsnd.says(vni); got != want {
			t.Errorf("network %d has %s instead of %s", vni, got, want)
		}
	}
	before := l.ktsnd.sets
	if l.look(); l.ktsnd.sets != before {
		t.Error("ktsnd is told again what it was told")
	}
	// One that was started anew knows nothing.
	clear(l.ktsnd.given)
	if l.look(); len(l.ktsnd.given) != 2 {
		t.Errorf("a ktsnd that was started anew knows %v", l.ktsnd.given)
	}
}

func TestLimitsFollowTheirNetwork(t *testing.T) {
	about := limited("tsn", 42, 1, &v1alpha1.PodLimits{Rate: numbered(2000)})
	l := newLab(t, about)
	l.look()
	about.Spec.Limits.Rate = numbered(10)
	if l.look(); l.ktsnd.says(42) != `{"message-rate":10}` {
		t.Errorf("after a change ktsnd has %s", l.ktsnd.says(42))
	}
	l.state.Networks[0].Object = nil
	if l.look(); l.ktsnd.says(42) == "" || l.reported == nil {
		t.Errorf("of a network that is not known ktsnd has %s, and it is reported %v", l.ktsnd.says(42), l.reported)
	}
	unknown := l.state
	l.state = network.Cluster{Unknown: errors.New("not heard")}
	if l.look(); l.ktsnd.says(42) == "" || l.reported == nil {
		t.Errorf("of a node whose task is not known ktsnd has %s, and it is reported %v", l.ktsnd.says(42), l.reported)
	}
	l.state = unknown
	l.state.Networks = nil
	if l.look(); l.ktsnd.says(42) != "" {
		t.Errorf("after the network has gone ktsnd has %s", l.ktsnd.says(42))
	}
}

func TestOfTwoNetworksWithOneVNITheOlderCounts(t *testing.T) {
	l := newLab(t, limited("a", 42, 2, &v1alpha1.PodLimits{Rate: numbered(1)}), limited("b", 42, 1, nil))
	if l.look(); l.ktsnd.says(42) != "" {
		t.Errorf("the younger one's count: %s", l.ktsnd.says(42))
	}
}

func TestWhatKtsndRefusesIsReportedAndTriedAgain(t *testing.T) {
	l := newLab(t, limited("tsn", 42, 1, &v1alpha1.PodLimits{Rate: numbered(1)}))
	l.ktsnd.refuse = &control.Error{Field: "vni", Message: "too many"}
	if again := l.look(); again != repeat.AfterFailure || l.reported == nil ||
		!strings.Contains(l.reported.Error(), "set the limits of network 42: ") {
		t.Errorf("%v, again in %v", l.reported, again)
	}
	var refused *control.Error
	if !errors.As(l.reported, &refused) {
		t.Errorf("%v does not say who refused", l.reported)
	}
	l.ktsnd.refuse = nil
	if again := l.look(); again != repeat.Every || l.reported != nil || l.ktsnd.says(42) == "" {
		t.Errorf("%v, again in %v", l.reported, again)
	}
}
