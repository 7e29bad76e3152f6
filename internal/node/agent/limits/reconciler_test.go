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
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// fakeKtsnd records the limits that are set.
type fakeKtsnd struct {
	limits map[uint32]control.GivenLimits
	sets   int
	err    error
}

func (k *fakeKtsnd) NetworkLimits(context.Context) ([]control.NetworkLimits, error) {
	var all []control.NetworkLimits
	for vni, limits := range k.limits {
		all = append(all, control.NetworkLimits{VNI: vni, Limits: limits})
	}
	return all, nil
}

func (k *fakeKtsnd) NetworkLimitsSet(_ context.Context, limits control.NetworkLimits) error {
	if k.err != nil {
		return k.err
	}
	k.sets++
	if !limits.Limits.Any() {
		delete(k.limits, limits.VNI)
		return nil
	}
	k.limits[limits.VNI] = limits.Limits
	return nil
}

// limitsText returns the limits of a network as text.
func (k *fakeKtsnd) limitsText(vni uint32) string {
	limits, known := k.limits[vni]
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
	l := &lab{t: t, ktsnd: &fakeKtsnd{limits: map[uint32]control.GivenLimits{}}}
	for _, object := range networks {
		l.state.Networks = append(l.state.Networks, network.Joined{Part: v1alpha1.NodeNetwork{Name: object.Name}, Object: object})
	}
	l.Reconciler = &Reconciler{
		State: func() network.Cluster { return l.state }, Log: slog.New(slog.DiscardHandler),
		Do:     func(ctx context.Context, ask func(context.Context, Ktsnd) error) error { return ask(ctx, l.ktsnd) },
		Report: func(err error) { l.reported = err },
	}
	return l
}

// reconcile returns the time until the next reconciliation.
func (l *lab) reconcile() time.Duration {
	l.t.Helper()
	result, err := l.Reconcile(l.t.Context(), reconcile.Request{})
	testlab.Must(l.t, err)
	return result.RequeueAfter
}

func int32Ptr(value int32) *int32 { return &value }

func newNetwork(name string, vni int32, createdUnix int64, limits *v1alpha1.PodLimits) *v1alpha1.TSNNetwork {
	return &v1alpha1.TSNNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(createdUnix, 0)},
		Spec:       v1alpha1.TSNNetworkSpec{VNI: vni, Limits: limits},
	}
}

func TestReconcileSetsLimits(t *testing.T) {
	l := newLab(t,
		newNetwork("all", 1, 1, &v1alpha1.PodLimits{Processes: int32Ptr(4), Sockets: int32Ptr(5), Memory: int32Ptr(6), Pending: int32Ptr(64),
			Rate: int32Ptr(0), Doorbells: int32Ptr(7), Horizon: "1500ms"}),
		newNetwork("some", 2, 1, &v1alpha1.PodLimits{Rate: int32Ptr(2000)}),
		newNetwork("empty", 3, 1, &v1alpha1.PodLimits{}),
		newNetwork("none", 4, 1, nil))
	// Limits that were set by hand.
	rate := uint64(1)
	l.ktsnd.limits[2], l.ktsnd.limits[9] = control.GivenLimits{DoorbellRate: &rate}, control.GivenLimits{Sockets: &rate}
	if again := l.reconcile(); l.reported != nil || again != repeat.Every {
		t.Fatalf("%v, again in %v", l.reported, again)
	}
	for vni, want := range map[uint32]string{
		1: `{"processes":4,"sockets":5,"ring-memory-bytes":6291456,"pending":64,"message-rate":0,"doorbell-rate":7,"horizon-ns":1500000000}`,
		2: `{"message-rate":2000}`, 3: "", 4: "", 9: "",
	} {
		if got := l.ktsnd.limitsText(vni); got != want {
			t.Errorf("network %d has %s instead of %s", vni, got, want)
		}
	}
	before := l.ktsnd.sets
	if l.reconcile(); l.ktsnd.sets != before {
		t.Error("limits were set again")
	}
	// A restarted ktsnd has no limits.
	clear(l.ktsnd.limits)
	if l.reconcile(); len(l.ktsnd.limits) != 2 {
		t.Errorf("a restarted ktsnd has %v", l.ktsnd.limits)
	}
}

func TestReconcileFollowsNetwork(t *testing.T) {
	object := newNetwork("tsn", 42, 1, &v1alpha1.PodLimits{Rate: int32Ptr(2000)})
	l := newLab(t, object)
	l.reconcile()
	object.Spec.Limits.Rate = int32Ptr(10)
	if l.reconcile(); l.ktsnd.limitsText(42) != `{"message-rate":10}` {
		t.Errorf("after a change ktsnd has %s", l.ktsnd.limitsText(42))
	}
	l.state.Networks[0].Object = nil
	if l.reconcile(); l.ktsnd.limitsText(42) == "" || l.reported == nil {
		t.Errorf("for an unknown network ktsnd has %s, reported %v", l.ktsnd.limitsText(42), l.reported)
	}
	unknown := l.state
	l.state = network.Cluster{Unknown: errors.New("not known")}
	if l.reconcile(); l.ktsnd.limitsText(42) == "" || l.reported == nil {
		t.Errorf("for an unknown node ktsnd has %s, reported %v", l.ktsnd.limitsText(42), l.reported)
	}
	l.state = unknown
	l.state.Networks = nil
	if l.reconcile(); l.ktsnd.limitsText(42) != "" {
		t.Errorf("after the network has gone ktsnd has %s", l.ktsnd.limitsText(42))
	}
}

func TestOlderNetworkWinsVNI(t *testing.T) {
	l := newLab(t, newNetwork("a", 42, 2, &v1alpha1.PodLimits{Rate: int32Ptr(1)}), newNetwork("b", 42, 1, nil))
	if l.reconcile(); l.ktsnd.limitsText(42) != "" {
		t.Errorf("the younger network's limits apply: %s", l.ktsnd.limitsText(42))
	}
}

func TestReconcileReportsAndRetriesRefusal(t *testing.T) {
	l := newLab(t, newNetwork("tsn", 42, 1, &v1alpha1.PodLimits{Rate: int32Ptr(1)}))
	l.ktsnd.err = &control.Error{Field: "vni", Message: "too many"}
	if again := l.reconcile(); again != repeat.AfterFailure || l.reported == nil ||
		!strings.Contains(l.reported.Error(), "set the limits of network 42: ") {
		t.Errorf("%v, again in %v", l.reported, again)
	}
	var refused *control.Error
	if !errors.As(l.reported, &refused) {
		t.Errorf("%v does not wrap the error of ktsnd", l.reported)
	}
	l.ktsnd.err = nil
	if again := l.reconcile(); again != repeat.Every || l.reported != nil || l.ktsnd.limitsText(42) == "" {
		t.Errorf("%v, again in %v", l.reported, again)
	}
}
