// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/metrics"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/hostcheck"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// fakeKtsnd remembers what it is asked for, and says that it begins with it at once.
type fakeKtsnd struct {
	status   control.Status
	schedule control.Schedule
	peers    []control.Peer
	// read replaces peers.
	read   func(context.Context) ([]control.Peer, error)
	sets   int
	refuse error
}

func (k *fakeKtsnd) Status(context.Context) (*control.Status, error) {
	status := k.status
	return &status, nil
}

func (k *fakeKtsnd) Schedule(context.Context) (*control.Schedule, error) {
	schedule := k.schedule
	return &schedule, nil
}

func (k *fakeKtsnd) ScheduleSet(_ context.Context, table *control.GateParameterTable) error {
	if k.refuse != nil {
		return k.refuse
	}
	k.sets++
	state := &k.schedule.Table
	state.GateEnabled, state.AdminGateStates, state.AdminControlList = table.GateEnabled, table.AdminGateStates, table.AdminControlList
	state.AdminCycleTime, state.AdminCycleTimeExtension = table.AdminCycleTime, table.AdminCycleTimeExtension
	state.AdminBaseTime, state.ConfigChangeTime = table.AdminBaseTime, table.AdminBaseTime
	return nil
}

func (k *fakeKtsnd) TrafficClassesSet(_ context.Context, classes control.TrafficClassMap, points control.PriorityCodePoints) error {
	k.status.TrafficClassMap, k.status.PriorityCodePoints = classes, points
	return nil
}

// lab is a node with a ktsnd, in a cluster with one network.
type lab struct {
	*Reconciler
	t       testing.TB
	ktsnd   *fakeKtsnd
	well    error
	faults  map[uint32]error
	running error
	// unswitched is why there is no Open vSwitch.
	unswitched error
	clock      fakeClock
	encryption fakeEncryption
	// counts are the summaries of the peers.
	counts map[string]metrics.PeerSummary
	// relays are those of the node's captured interfaces.
	relays []relay.Status
	// host has findings about the node; nil: not known.
	host        []hostcheck.Finding
	hostFailure error
	// state is what the API server says, TSNNode aside; now is the time; written counts reports.
	state   network.Cluster
	now     time.Time
	written int
}

// fakeEncryption says what the test has it say.
type fakeEncryption struct {
	announcement encryption.Announcement
	condition    *metav1.Condition
	refused      string
}

func (e *fakeEncryption) Announced() encryption.Announcement { return e.announcement }

func (e *fakeEncryption) Condition(*network.Joined) (*metav1.Condition, string) {
	return e.condition, e.refused
}

func newLab(t testing.TB, about *v1alpha1.TSNNetwork) *lab {
	t.Helper()
	scheme := runtime.NewScheme()
	testlab.Must(t, errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"rack": "1"}}}
	ownTsnNode := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	l := &lab{t: t, ktsnd: &fakeKtsnd{status: control.Status{KtsndVersion: "1.2", Uplink: "direct", Interface: "eth0", LinkSpeedBps: 1e9}}, now: time.Now()}
	l.ktsnd.schedule.Table.AdminGateStates = 255
	ownTsnNode.Spec.Networks = []v1alpha1.NodeNetwork{{Name: about.Name, IPv4: "10.42.0.0/24"}}
	l.state.Networks = []network.Joined{{Part: ownTsnNode.Spec.Networks[0], Object: about}}
	if about.Status.Schedule != nil {
		ownTsnNode.Spec.Gates, l.state.Gates = about.Name, about
	}
	l.Reconciler = &Reconciler{
		Client: interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(node, ownTsnNode).WithStatusSubresource(ownTsnNode).Build(),
			interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, subresource string, object client.Object, patch client.Patch,
				options ...client.SubResourcePatchOption) error {
				l.written++
				return c.SubResource(subresource).Patch(ctx, object, patch, options...)
			}}),
		Node: "a", Version: "1.1", State: func() network.Cluster { return l.state },
		Well: func() error { return l.well }, Fault: func(vni uint32) error { return l.faults[vni] }, Switch: func() error { return l.unswitched }, Now: func() time.Time { return l.now },
		MTU: func(string, *network.Joined) int { return 1450 }, Relays: func() []relay.Status { return l.relays }, Host: func() ([]hostcheck.Finding, bool, error) { return l.host, l.host != nil, l.hostFailure }, Clock: &l.clock, Encryption: &l.encryption, Log: slog.New(slog.DiscardHandler),
		CountPeers: func(counts map[string]metrics.PeerSummary) { l.counts = counts },
		Do: func(ctx context.Context, ask func(context.Context, Ktsnd) error) error {
			if l.running != nil {
				return l.running
			}
			return ask(ctx, l.ktsnd)
		},
	}
	l.hear()
	return l
}

// hear has the agent know what its TSNNode is.
func (l *lab) hear() {
	l.t.Helper()
	l.state.Node = &v1alpha1.TSNNode{}
	testlab.Must(l.t, l.Client.Get(l.t.Context(), client.ObjectKey{Name: "a"}, l.state.Node))
}

// reconcile looks once, at the clock first.
func (l *lab) reconcile() reconcile.Result {
	l.t.Helper()
	clock, err := l.ReconcileClock(l.t.Context(), reconcile.Request{})
	testlab.Must(l.t, err)
	result, err := l.Reconcile(l.t.Context(), reconcile.Request{})
	testlab.Must(l.t, err)
	return reconcile.Result{RequeueAfter: min(clock.RequeueAfter, result.RequeueAfter)}
}

// look has the agent look a minute later, when all that it waits for has passed, and returns what the node says then of the network.
func (l *lab) look() v1alpha1.NodeNetworkStatus {
	l.t.Helper()
	l.reconcile() // from which on a report may be due
	l.hear()
	l.now = l.now.Add(time.Minute)
	l.reconcile()
	l.hear()
	if len(l.state.Node.Status.Networks) != 1 {
		l.t.Fatalf("the node says %+v", l.state.Node.Status)
	}
	return l.state.Node.Status.Networks[0]
}

func aNetwork() *v1alpha1.TSNNetwork {
	return &v1alpha1.TSNNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: "tsn", Generation: 3},
		Spec:       v1alpha1.TSNNetworkSpec{VNI: 42, IPv4: v1alpha1.Range4{CIDR: "10.42.0.0/16", NodePrefixLength: 24}},
	}
}

// scheduled is a network whose schedule the operator has accepted.
func scheduled(t *testing.T) *v1alpha1.TSNNetwork {
	t.Helper()
	about := aNetwork()
	about.Spec.LinkSpeed = "1Gbit"
	about.Spec.Schedule = &v1alpha1.GateParameterTable{
		GateEnabled: true, AdminCycleTime: &v1alpha1.CycleTime{Numerator: 1, Denominator: 1000},
		AdminControlList: &v1alpha1.GateControlList{Entries: []v1alpha1.GateControlEntry{
			{OperationName: "set-gate-states", TimeIntervalValue: 1000000, GateStatesValue: 128},
		}},
	}
	gates, err := tsnnetwork.GatesOf(about)
	testlab.Must(t, err)
	about.Status.Schedule = &v1alpha1.ScheduleRequest{Hash: gates.Hash(), BaseTime: v1alpha1.PTPTime{Seconds: 77, Nanoseconds: 5000000}}
	return about
}

func TestTheAcceptedScheduleIsExecuted(t *testing.T) {
	l := newLab(t, scheduled(t))
	status := l.look()
	base := l.ktsnd.schedule.Table.AdminBaseTime
	if l.ktsnd.sets != 1 || base.Seconds != 77 || base.Nanoseconds != 5000000 || l.ktsnd.status.TrafficClassMap[7] != 7 {
		t.Errorf("ktsnd was told %d times, and executes %+v", l.ktsnd.sets, l.ktsnd.schedule.Table)
	}
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionScheduleOperational) || status.ScheduleHash == "" {
		t.Errorf("the node says %+v", status)
	}
	if l.look(); l.ktsnd.sets != 1 {
		t.Error("ktsnd is told again what it was told")
	}
	// A restarted ktsnd has no state.
	l.ktsnd.schedule = control.Schedule{}
	if l.look(); l.ktsnd.sets != 2 {
		t.Error("a ktsnd that was started anew is told nothing")
	}
	l.ktsnd.schedule.Table.ConfigPending = true
	if status = l.look(); status.ScheduleHash != "" || meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionScheduleOperational) {
		t.Errorf("a schedule that has not begun is operational: %+v", status)
	}
}

func TestWhatWasNotAcceptedChangesNothing(t *testing.T) {
	about := scheduled(t)
	about.Spec.Schedule.AdminControlList.Entries[0].GateStatesValue = 1
	l := newLab(t, about)
	status := l.look()
	if l.ktsnd.sets != 0 || meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionScheduleOperational) {
		t.Errorf("ktsnd was told of it; the node says %+v", status)
	}
}

func TestWithoutAScheduleGatesAreOpen(t *testing.T) {
	l := newLab(t, aNetwork())
	l.ktsnd.schedule.Table.GateEnabled = true // somebody's, or that of a network that is gone
	if status := l.look(); l.ktsnd.sets != 1 || l.ktsnd.schedule.Table.GateEnabled ||
		meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionScheduleOperational) != nil {
		t.Errorf("ktsnd executes %+v", l.ktsnd.schedule.Table)
	}
}

func TestANodeSaysWhatIsMissing(t *testing.T) {
	for name, test := range map[string]struct {
		spec      func(*v1alpha1.TSNNetwork)
		lab       func(*lab)
		condition string
		reason    string
		sentence  string
	}{
		"nothing": {nil, nil, v1alpha1.ConditionReady, v1alpha1.ReasonAsAsked, ""},
		"its uplink": {func(n *v1alpha1.TSNNetwork) { n.Spec.Uplinks = []v1alpha1.Uplink{{Interface: "eno9"}} }, nil,
			v1alpha1.ConditionReady, v1alpha1.ReasonUplinkMissing, "insists on interface eno9, and ktsnd sends by eth0"},
		"its type of uplink": {func(n *v1alpha1.TSNNetwork) { n.Spec.Uplinks = []v1alpha1.Uplink{{Interface: "eth0", Type: "OVS"}} }, nil,
			v1alpha1.ConditionReady, v1alpha1.ReasonUplinkMissing, "insists on an uplink of type OVS, and that of ktsnd is direct"},
		"a number that Open vSwitch does not carry": {func(n *v1alpha1.TSNNetwork) { n.Spec.VNI = 4095 }, func(l *lab) { l.ktsnd.status.Uplink = "ovs" },
			v1alpha1.ConditionReady, v1alpha1.ReasonUplinkMissing, "network 4095 cannot go through Open vSwitch"},
		"its uplink through Open vSwitch": {func(n *v1alpha1.TSNNetwork) { n.Spec.Uplinks = []v1alpha1.Uplink{{Interface: "eth0", Type: "OVS"}} },
			func(l *lab) { l.ktsnd.status.Uplink = "ovs" }, v1alpha1.ConditionReady, v1alpha1.ReasonAsAsked, ""},
		"an uplink for it": {func(n *v1alpha1.TSNNetwork) {
			n.Spec.Uplinks = []v1alpha1.Uplink{{Interface: "eth0", NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "2"}}}}
		}, nil, v1alpha1.ConditionReady, v1alpha1.ReasonUplinkMissing, "no entry of spec.uplinks matches this node"},
		"not the uplink of its rack": {func(n *v1alpha1.TSNNetwork) {
			n.Spec.Uplinks = []v1alpha1.Uplink{{Interface: "eno9", NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "2"}}},
				{Interface: "eth0"}}
		}, nil, v1alpha1.ConditionReady, v1alpha1.ReasonAsAsked, ""},
		"ktsnd": {nil, func(l *lab) { l.running = errors.New("ktsnd does not answer") }, v1alpha1.ConditionReady, v1alpha1.ReasonNodeNotReady, "ktsnd does not answer"},
		"Open vSwitch, and therefore ktsnd": {nil, func(l *lab) {
			l.running, l.unswitched = errors.New("ktsnd does not answer"), errors.New("set up Open vSwitch: no hugepages")
		}, v1alpha1.ConditionReady, v1alpha1.ReasonNodeNotReady, "set up Open vSwitch: no hugepages"},
		"a peer": {nil, func(l *lab) { l.well = errors.New("networks: no address") }, v1alpha1.ConditionReady, v1alpha1.ReasonNodeNotReady, "networks: no address"},
		"a device": {nil, func(l *lab) {
			l.faults = map[uint32]error{uint32(l.state.Networks[0].Object.Spec.VNI): errors.New("no tunnel")}
		}, v1alpha1.ConditionReady, v1alpha1.ReasonNodeNotReady, "no tunnel"},
		"the link": {nil, func(l *lab) { l.ktsnd.status.LinkSpeedBps = 1e8 }, v1alpha1.ConditionScheduleOperational, reasonLinkTooSlow, "the uplink has 100 Mbit/s"},
		"consent": {nil, func(l *lab) { l.ktsnd.refuse = &control.Error{Message: "no"} }, v1alpha1.ConditionScheduleOperational, reasonRefused,
			"ktsnd refused: no"},
	} {
		t.Run(name, func(t *testing.T) {
			about := scheduled(t)
			if test.spec != nil {
				test.spec(about)
			}
			l := newLab(t, about)
			if test.lab != nil {
				test.lab(l)
			}
			status := l.look()
			condition := meta.FindStatusCondition(status.Conditions, test.condition)
			if condition == nil || condition.Reason != test.reason || !strings.Contains(condition.Message, test.sentence) || condition.ObservedGeneration != 3 {
				t.Errorf("the node says %+v", condition)
			}
			if (condition.Status == metav1.ConditionTrue) != (test.sentence == "") {
				t.Errorf("%s is %s", condition.Type, condition.Status)
			}
		})
	}
}

func TestANodeSaysOnlyWhatHasChanged(t *testing.T) {
	l := newLab(t, scheduled(t))
	l.look()
	if status := l.state.Node.Status; l.written != 1 || status.AgentVersion != "1.1" || status.KtsndVersion != "1.2" {
		t.Fatalf("after %d reports the node says %+v", l.written, status)
	}
	for range 5 {
		l.look()
	}
	if l.written != 1 {
		t.Errorf("%d reports where nothing changed", l.written)
	}
	l.ktsnd.status.KtsndVersion = "1.3"
	l.reconcile()
	for range 3 { // before the API server has told of it
		l.now = l.now.Add(time.Second)
		l.reconcile()
	}
	if l.hear(); l.written != 2 || l.state.Node.Status.KtsndVersion != "1.3" {
		t.Errorf("%d reports of one change; the node says %+v", l.written, l.state.Node.Status)
	}
	l.running = errors.New("ktsnd does not answer")
	if l.look(); l.written != 3 || l.state.Node.Status.KtsndVersion != "1.3" {
		t.Errorf("without ktsnd the node says %+v", l.state.Node.Status)
	}
	l.state.Node.Status = v1alpha1.TSNNodeStatus{} // recreated
	l.now = l.now.Add(time.Minute)
	if l.reconcile(); l.written != 4 {
		t.Error("what is lost is not said again")
	}
}

func TestReportsOfManyNodesAreSpread(t *testing.T) {
	l := newLab(t, aNetwork())
	l.state.Networks[0].Shards = [][]network.Member{make([]network.Member, 100)}
	for range 9 {
		l.state.Networks[0].Shards = append(l.state.Networks[0].Shards, l.state.Networks[0].Shards[0])
	}
	const most = 1000 * spreadPerNode
	sooner, later := 0, 0
	for range 100 {
		l.writeDue = time.Time{}
		switch left := l.reconcile().RequeueAfter; {
		case left > most:
			t.Fatalf("one waits %v", left)
		case left < most/2:
			sooner++
		default:
			later++
		}
	}
	if sooner == 0 || later == 0 {
		t.Errorf("%d are written in the first half of %v, %d in the second", sooner, most, later)
	}
	if l.written > 10 {
		t.Errorf("%d of 100 are written at once", l.written)
	}
}

func TestWhatPassesIsNoFault(t *testing.T) {
	l := newLab(t, aNetwork())
	for _, step := range []struct {
		does    string
		well    error
		after   time.Duration
		written int
	}{
		{"its parts start", errors.New("kubelet: not started yet"), 0, 0},
		{"they still do", errors.New("kubelet: not started yet"), startPatience / 2, 0},
		{"they have", nil, 0, 1},
		{"a network is new", errors.New("networks: not known yet"), time.Hour, 1},
		{"it is known", nil, patience / 2, 1},
		{"kubelet has gone", errors.New("kubelet: gone"), time.Hour, 1},
		{"it does not come back", errors.New("kubelet: gone"), patience, 2},
		{"it does later", nil, time.Hour, 3},
	} {
		l.well = step.well
		l.now = l.now.Add(step.after)
		if l.reconcile(); l.written != step.written {
			t.Errorf("%s: %d reports, want %d", step.does, l.written, step.written)
		}
		l.hear()
	}
	never := newLab(t, aNetwork())
	never.well = errors.New("kubelet: not started yet")
	never.reconcile()
	never.now = never.now.Add(startPatience)
	if never.reconcile(); never.written != 1 {
		t.Errorf("%d reports of parts that do not start", never.written)
	}
}

func TestWithoutATaskKtsndKeepsWhatItHas(t *testing.T) {
	for name, forget := range map[string]func(*lab){
		"the node's task is not known":         func(l *lab) { l.state = network.Cluster{Unknown: errors.New("not heard")} },
		"the network of the gates is not":      func(l *lab) { l.state.Gates, l.state.Networks[0].Object = nil, nil },
		"what the operator accepted is not":    func(l *lab) { l.state.Gates = aNetwork() },
		"the accepted schedule is another one": func(l *lab) { l.state.Gates.Status.Schedule.Hash = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, scheduled(t))
			l.ktsnd.schedule.Table.GateEnabled = true
			forget(l)
			if l.reconcile(); l.ktsnd.sets != 0 {
				t.Error("ktsnd was told of a schedule")
			}
		})
	}
}

func TestGatesMayBeOfANetworkThatTheNodeIsNotOn(t *testing.T) {
	l := newLab(t, aNetwork())
	gates := scheduled(t)
	gates.Name = "gates"
	l.state.Node.Spec.Gates, l.state.Gates = "gates", gates
	if l.reconcile(); l.ktsnd.sets != 1 || !l.ktsnd.schedule.Table.GateEnabled {
		t.Errorf("ktsnd executes %+v", l.ktsnd.schedule.Table)
	}
}
