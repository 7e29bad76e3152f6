// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// clocked is network old, which asks for clocks within 10 us, in its generation 3.
func clocked() *v1alpha1.TSNNetwork {
	network := deleted()
	network.DeletionTimestamp, network.Generation, network.Status = nil, 3, v1alpha1.TSNNetworkStatus{}
	network.Spec.TrafficClasses = nil
	network.Spec.Clock = &v1alpha1.ClockRequirement{MaxError: "10us"}
	return network
}

// clockSaid is a TSNNode with a part of network old that is as it shall be, except for its clock.
func clockSaid(name string, status metav1.ConditionStatus, reason string) *v1alpha1.TSNNode {
	state := says(metav1.ConditionTrue, metav1.ConditionTrue, "")
	state.Name = name
	state.Spec.Networks = []v1alpha1.NodeNetwork{{Name: "old", IPv4: "10.42.0.0/24"}}
	if status != "" {
		state.Status.Networks[0].Conditions = append(state.Status.Networks[0].Conditions, metav1.Condition{
			Type: v1alpha1.ConditionClockSynchronized, Status: status, Reason: reason, Message: "its clock is " + reason})
	}
	return state
}

// elsewhere is a TSNNode without a part of the network, whose clock is in a state.
func elsewhere(state string, bound *int64) *v1alpha1.TSNNode {
	return &v1alpha1.TSNNode{Status: v1alpha1.TSNNodeStatus{AgentVersion: "1", Clock: &v1alpha1.NodeClock{State: state, ErrorBoundNanoseconds: bound}}}
}

func TestClockTrustOf(t *testing.T) {
	ns := func(value int64) *int64 { return &value }
	odd := clocked()
	odd.Spec.Clock.MaxError = "3us"
	for name, test := range map[string]struct {
		network *v1alpha1.TSNNetwork
		state   *v1alpha1.TSNNode
		want    clockTrust
	}{
		"a good clock":               {clocked(), clockSaid("a", metav1.ConditionTrue, v1alpha1.ReasonAsAsked), clockGood},
		"one that nobody keeps":      {clocked(), clockSaid("a", metav1.ConditionTrue, v1alpha1.ReasonClockHoldover), clockHoldover},
		"a bad one":                  {clocked(), clockSaid("a", metav1.ConditionFalse, v1alpha1.ReasonClockUnsynchronized), clockLost},
		"before the first estimate":  {clocked(), clockSaid("a", metav1.ConditionUnknown, v1alpha1.ReasonClockUnknown), clockUnreported},
		"a part, and nothing said":   {clocked(), clockSaid("a", "", ""), clockUnreported},
		"no TSNNode":                 {clocked(), nil, clockUnreported},
		"no part, and nothing said":  {clocked(), &v1alpha1.TSNNode{}, clockUnreported},
		"no part, a good clock":      {clocked(), elsewhere("Synchronized", ns(10000)), clockGood},
		"no part, a bad clock":       {clocked(), elsewhere("Synchronized", ns(20000)), clockLost},
		"no part, by a strict need":  {clocked(), elsewhere("Unsynchronized", ns(5000)), clockGood},
		"no part, nobody keeps it":   {clocked(), elsewhere("Holdover", ns(5000)), clockHoldover},
		"no part, nobody is known":   {clocked(), elsewhere("Unknown", ns(5000)), clockLost},
		"no part, an unknown error":  {clocked(), elsewhere("Synchronized", nil), clockLost},
		"a bound that is rounded up": {odd, elsewhere("Synchronized", ns(5000)), clockGood},
	} {
		t.Run(name, func(t *testing.T) {
			if got := clockTrustOf(test.network, test.state, time.Unix(1000, 0)); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestRoundUp(t *testing.T) {
	for value, want := range map[int64]int64{1: 1, 2: 2, 3: 5, 5: 5, 6: 10, 10: 10, 11: 20, 49999: 50000, 999999999e9: 1e18} {
		if got := roundUp(value); got != want {
			t.Errorf("%d is rounded to %d, want %d", value, got, want)
		}
	}
}

// clockWorld has nodes with pods on network old whose agents are ready.
func clockWorld(t *testing.T, network *v1alpha1.TSNNetwork, states ...*v1alpha1.TSNNode) *Networks {
	t.Helper()
	objects := []client.Object{network}
	for number, state := range states {
		pod := aPod("default")
		pod.Name, pod.Spec.NodeName = "pod-"+state.Name, state.Name
		objects = append(objects, state, pod, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: state.Name, Labels: map[string]string{v1alpha1.NodeLabel: v1alpha1.LabelValue}},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", number+1)}}},
		})
	}
	r := inCluster(t, objects...)
	for _, state := range states {
		r.shared.agents.set(agentOn("agent-"+state.Name, state.Name, corev1.ConditionTrue))
	}
	return r
}

func TestClockCondition(t *testing.T) {
	good, held := clockSaid("a", metav1.ConditionTrue, v1alpha1.ReasonAsAsked), clockSaid("b", metav1.ConditionTrue, v1alpha1.ReasonClockHoldover)
	lost, waits := clockSaid("c", metav1.ConditionFalse, v1alpha1.ReasonClockUnsynchronized), clockSaid("d", "", "")
	for name, test := range map[string]struct {
		states   []*v1alpha1.TSNNode
		want     string
		degraded metav1.ConditionStatus
		problems int
	}{
		"all are good":         {[]*v1alpha1.TSNNode{good}, "True AsAsked: the clocks of all nodes with pods are good enough", metav1.ConditionFalse, 0},
		"one nobody keeps":     {[]*v1alpha1.TSNNode{good, held}, "True ClockHoldover: node b: its clock is ClockHoldover", metav1.ConditionFalse, 0},
		"one has said nothing": {[]*v1alpha1.TSNNode{good, held, waits}, "Unknown WaitingForNodes: these nodes have not reported their clocks yet: d", metav1.ConditionFalse, 0},
		"one is bad":           {[]*v1alpha1.TSNNode{good, held, waits, lost}, "False ClockUnsynchronized: node c: its clock is ClockUnsynchronized", metav1.ConditionTrue, 1},
	} {
		t.Run(name, func(t *testing.T) {
			status := clockWorld(t, clocked(), test.states...).lookAt(t).Status
			condition := clockOf(status.Conditions)
			if got := fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, condition.Message); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
				t.Errorf("pods cannot be attached: %+v", status.Conditions)
			}
			if !meta.IsStatusConditionPresentAndEqual(status.Conditions, v1alpha1.ConditionDegraded, test.degraded) || len(status.NodeProblems) != test.problems {
				t.Errorf("the conditions are %+v, the problems %+v", status.Conditions, status.NodeProblems)
			}
		})
	}
	network := clocked()
	network.Spec.Clock = nil
	network.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionClockSynchronized, Status: metav1.ConditionFalse, Reason: "R"}}
	if status := clockWorld(t, network, lost).lookAt(t).Status; clockOf(status.Conditions).Type != "" || len(status.NodeProblems) > 0 {
		t.Errorf("a network that does not ask says %+v, %+v", status.Conditions, status.NodeProblems)
	}
}

// clockIs has node a say another thing of its clock.
func clockIs(t *testing.T, r *Networks, status metav1.ConditionStatus, reason, text string) {
	t.Helper()
	state := &v1alpha1.TSNNode{}
	must(t, r.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, state))
	conditions := &state.Status.Networks[0].Conditions
	meta.SetStatusCondition(conditions, metav1.Condition{Type: v1alpha1.ConditionClockSynchronized, Status: status, Reason: reason, Message: text})
	must(t, r.Client.Update(t.Context(), state))
}

// TestClockEvents uses messages that change each second.
func TestClockEvents(t *testing.T) {
	r := clockWorld(t, clocked(), clockSaid("a", metav1.ConditionTrue, v1alpha1.ReasonAsAsked))
	now := time.Now()
	r.pace.now = func() time.Time { return now }
	events := r.Events.(*record.FakeRecorder).Events
	for _, step := range []struct {
		status       metav1.ConditionStatus
		reason, text string
		event        string
	}{
		{metav1.ConditionTrue, v1alpha1.ReasonAsAsked, "", ""},
		{metav1.ConditionTrue, v1alpha1.ReasonClockHoldover, "3 us", "Warning ClockHoldover node a: 3 us"},
		{metav1.ConditionTrue, v1alpha1.ReasonClockHoldover, "4 us", ""},
		{metav1.ConditionFalse, v1alpha1.ReasonClockUnsynchronized, "11 us", "Warning ClockUnsynchronized node a: 11 us"},
		{metav1.ConditionFalse, v1alpha1.ReasonClockUnsynchronized, "12 us", ""},
		{metav1.ConditionTrue, v1alpha1.ReasonAsAsked, "", "Normal ClockSynchronized the clocks of all nodes with pods are good enough"},
		{metav1.ConditionFalse, v1alpha1.ReasonClockUnsynchronized, "13 us", "Warning ClockUnsynchronized node a: 13 us"},
	} {
		clockIs(t, r, step.status, step.reason, step.text)
		now = now.Add(time.Minute)
		r.lookAt(t)
		r.lookAt(t)
		var got []string
		for len(events) > 0 {
			got = append(got, <-events)
		}
		if strings.Join(got, "\n") != step.event {
			t.Errorf("%s %s: the Events are %q, want %q", step.reason, step.text, got, step.event)
		}
	}
}

func TestClockEventsAfterRestart(t *testing.T) {
	network := clocked()
	network.Status.NodeProblems = []v1alpha1.NodeProblem{{Node: "a", Type: v1alpha1.ConditionClockSynchronized, Reason: v1alpha1.ReasonClockUnsynchronized, Message: "9 us"}}
	network.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionClockSynchronized, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonClockUnsynchronized, Message: "node a: 9 us"},
		{Type: v1alpha1.ConditionScheduleAccepted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonClockAwaited, Message: "these: a, b"},
	}
	network.Spec.Schedule = someSchedule()
	r := clockWorld(t, network, clockSaid("a", metav1.ConditionFalse, v1alpha1.ReasonClockUnsynchronized))
	r.lookAt(t)
	if events := r.Events.(*record.FakeRecorder).Events; len(events) > 0 {
		t.Errorf("there is an Event %q", <-events)
	}
}

// someSchedule has all gates open.
func someSchedule() *v1alpha1.GateParameterTable {
	return &v1alpha1.GateParameterTable{
		GateEnabled: true, AdminCycleTime: &v1alpha1.CycleTime{Numerator: 1, Denominator: 1000},
		AdminControlList: &v1alpha1.GateControlList{Entries: []v1alpha1.GateControlEntry{
			{OperationName: "set-gate-states", TimeIntervalValue: 1000000, GateStatesValue: 255}}},
	}
}

func TestScheduleAwaitsClocks(t *testing.T) {
	const lostText = "the schedule starts when the clocks of all nodes that execute it are good enough, and these are not: b; `ktsn clock` shows why"
	const unsaidText = "the schedule starts when these nodes have reported their clocks: b"
	good, held := clockSaid("a", metav1.ConditionTrue, v1alpha1.ReasonAsAsked), clockSaid("b", metav1.ConditionTrue, v1alpha1.ReasonClockHoldover)
	lost, waits := clockSaid("b", metav1.ConditionFalse, v1alpha1.ReasonClockUnsynchronized), clockSaid("b", "", "")
	past := clockSaid("b", metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
	past.Status.Networks[0].ObservedGeneration = 2
	other := elsewhere("Unknown", nil)
	other.Name = "b"
	asked := func(change func(*v1alpha1.TSNNetwork)) *v1alpha1.TSNNetwork {
		network := clocked()
		network.Spec.Schedule = someSchedule()
		change(network)
		return network
	}
	same := func(*v1alpha1.TSNNetwork) {}
	for name, test := range map[string]struct {
		network *v1alpha1.TSNNetwork
		second  *v1alpha1.TSNNode
		status  metav1.ConditionStatus
		text    string
	}{
		"all are good, though nobody keeps one": {asked(same), held, metav1.ConditionTrue, "all nodes begin with it at"},
		"one is bad":                            {asked(same), lost, metav1.ConditionFalse, lostText},
		"one has said nothing":                  {asked(same), waits, metav1.ConditionUnknown, unsaidText},
		"one knows the network as it was":       {asked(same), past, metav1.ConditionUnknown, unsaidText},
		"one is not on the network":             {asked(same), other, metav1.ConditionFalse, lostText},
		"the network does not ask":              {asked(func(n *v1alpha1.TSNNetwork) { n.Spec.Clock = nil }), lost, metav1.ConditionTrue, "all nodes begin with it at"},
		"only classes, which begin at no time": {asked(func(n *v1alpha1.TSNNetwork) { n.Spec.Schedule, n.Spec.TrafficClasses = nil, &v1alpha1.TrafficClasses{} }), waits,
			metav1.ConditionTrue, "all nodes begin with it at"},
	} {
		t.Run(name, func(t *testing.T) {
			r := clockWorld(t, test.network, good, test.second)
			status := r.lookAt(t).Status
			condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionScheduleAccepted)
			if condition == nil || condition.Status != test.status || !strings.HasPrefix(condition.Message, test.text) {
				t.Errorf("got %+v, want %s %s", condition, test.status, test.text)
			}
			if begins := status.Schedule != nil; begins != (test.status == metav1.ConditionTrue) {
				t.Errorf("the schedule is %+v", status.Schedule)
			}
			// A pending report is not a fault.
			if degraded := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDegraded); degraded != (test.status == metav1.ConditionFalse) {
				t.Errorf("the conditions are %+v", status.Conditions)
			}
		})
	}
}

func TestAwaitedScheduleKeepsPrevious(t *testing.T) {
	network := clocked()
	network.Spec.Schedule = someSchedule()
	r := clockWorld(t, network, clockSaid("a", metav1.ConditionTrue, v1alpha1.ReasonAsAsked))
	before := r.lookAt(t).Status.Schedule
	clockIs(t, r, metav1.ConditionFalse, v1alpha1.ReasonClockUnknown, "nobody keeps it")
	// Without a change of the schedule, the base time stays.
	if status := r.lookAt(t).Status; status.Schedule == nil || *status.Schedule != *before || !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionScheduleAccepted) {
		t.Errorf("the schedule was %+v, and is now %+v, %+v", before, status.Schedule, status.Conditions)
	}
	change := get(t, r)
	change.Spec.Schedule.AdminControlList.Entries[0].GateStatesValue = 15
	must(t, r.Client.Update(t.Context(), change))
	r.NowTAI = func() int64 { return 77e9 }
	if status := r.lookAt(t).Status; status.Schedule == nil || status.Schedule.Hash != before.Hash || status.Schedule.BaseTime != before.BaseTime {
		t.Errorf("the schedule was %+v, and is now %+v", before, status.Schedule)
	}
	clockIs(t, r, metav1.ConditionTrue, v1alpha1.ReasonAsAsked, "")
	if status := r.lookAt(t).Status; status.Schedule.Hash == before.Hash || status.Schedule.BaseTime.Seconds < 78 {
		t.Errorf("the schedule was %+v, and is now %+v", before, status.Schedule)
	}
}

func TestScheduleIgnoresSilentNodes(t *testing.T) {
	network := clocked()
	network.Spec.Schedule = someSchedule()
	r := clockWorld(t, network, clockSaid("a", metav1.ConditionTrue, v1alpha1.ReasonAsAsked), clockSaid("b", metav1.ConditionFalse, v1alpha1.ReasonClockUnknown))
	later := time.Now().Add(time.Hour)
	r.shared.agents.now = func() time.Time { return later }
	r.shared.agents.nodes["b"] = &agentNode{pods: 1, expectedSince: time.Unix(1, 0)}
	status := r.lookAt(t).Status
	if status.Schedule == nil {
		t.Errorf("no schedule begins: %+v", status.Conditions)
	}
	if condition := clockOf(status.Conditions); condition.Status != metav1.ConditionUnknown || condition.Reason != v1alpha1.ReasonNodeSilent {
		t.Errorf("of the clocks it says %+v", condition)
	}
}

// TestClockStatusInterval uses a thousand nodes, whose other reports wait for seconds.
func TestClockStatusInterval(t *testing.T) {
	r := clockWorld(t, clocked(), clockSaid("a", metav1.ConditionTrue, v1alpha1.ReasonAsAsked))
	now := time.Now()
	r.pace.now = func() time.Time { return now }
	network := r.lookAt(t)
	used := newUsage()
	for name := range nodesNamed(1000) {
		used.onNode[name] = 1
	}
	o := &outcome{network: network, used: used, reports: []report{{node: "a", conditions: clockSaid("a", metav1.ConditionFalse, v1alpha1.ReasonClockUnknown).Status.Networks[0].Conditions}}}
	result, err := r.updateStatus(t.Context(), o)
	if err != nil || result.RequeueAfter != clockWriteInterval {
		t.Errorf("it is written after %v, %v; want %v", result.RequeueAfter, err, clockWriteInterval)
	}
	o.reports[0].conditions = clockSaid("a", metav1.ConditionTrue, v1alpha1.ReasonAsAsked).Status.Networks[0].Conditions
	result, err = r.updateStatus(t.Context(), o)
	if err != nil || result.RequeueAfter != 5*time.Second {
		t.Errorf("what does not concern clocks is written after %v, %v", result.RequeueAfter, err)
	}
}

// clockLabelsOf are those of node a after the controller has looked at it.
func clockLabelsOf(t *testing.T, r *Networks, l *ClockLabels) (labels string, again time.Duration) {
	t.Helper()
	result, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "a"}})
	must(t, err)
	node := &corev1.Node{}
	must(t, r.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, node))
	delete(node.Labels, v1alpha1.NodeLabel)
	var all []string
	for _, label := range slices.Sorted(maps.Keys(node.Labels)) {
		all = append(all, label+"="+node.Labels[label])
	}
	return strings.Join(all, " "), result.RequeueAfter
}

func TestClockLabels(t *testing.T) {
	const lost = "clock.kubernetsn.io/old=lost"
	r := clockWorld(t, clocked(), clockSaid("a", "", ""))
	r.shared.agents.syncedAt = time.Unix(1, 0)
	l := &ClockLabels{Client: r.Client, Now: time.Now, shared: r.shared}
	update := func(change func(*corev1.Node)) {
		t.Helper()
		node := &corev1.Node{}
		must(t, r.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, node))
		change(node)
		must(t, r.Client.Update(t.Context(), node))
	}
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"it has said nothing", func() {}, ""},
		{"a bad clock", func() { clockIs(t, r, metav1.ConditionFalse, v1alpha1.ReasonClockUnknown, "") }, lost},
		{"in holdover", func() { clockIs(t, r, metav1.ConditionTrue, v1alpha1.ReasonClockHoldover, "") }, ""},
		{"bad again", func() { clockIs(t, r, metav1.ConditionFalse, v1alpha1.ReasonClockUnknown, "") }, lost},
		{"somebody takes the label away", func() { update(func(n *corev1.Node) { delete(n.Labels, v1alpha1.ClockLabelPrefix+"old") }) }, lost},
		{"somebody writes others", func() {
			update(func(n *corev1.Node) {
				n.Labels[v1alpha1.ClockLabelPrefix+"old"], n.Labels[v1alpha1.ClockLabelPrefix+"gone"], n.Labels["own"] = "found", "lost", "own"
			})
		}, lost + " own=own"},
		{"its last pod has gone, and its agent with it", func() { update(func(n *corev1.Node) { delete(n.Labels, v1alpha1.NodeLabel) }) }, "own=own"},
		{"there are pods again", func() { update(func(n *corev1.Node) { n.Labels[v1alpha1.NodeLabel] = v1alpha1.LabelValue }) }, lost + " own=own"},
		{"the network does not ask any more", func() {
			network := get(t, r)
			network.Spec.Clock = nil
			must(t, r.Client.Update(t.Context(), network))
		}, "own=own"},
	} {
		step.do()
		if got, _ := clockLabelsOf(t, r, l); got != step.want {
			t.Errorf("%s: it has labels %q, want %q", step.what, got, step.want)
		}
	}
}

// TestClockLabelsWithoutAgent also makes the kubelet unready for a while.
func TestClockLabelsWithoutAgent(t *testing.T) {
	r := clockWorld(t, clocked(), clockSaid("a", metav1.ConditionTrue, v1alpha1.ReasonAsAsked))
	now := time.Now()
	r.shared.agents.now = func() time.Time { return now }
	r.shared.agents.syncedAt = time.Unix(1, 0)
	l := &ClockLabels{Client: r.Client, Now: r.shared.agents.now, shared: r.shared}
	answers := func(status corev1.ConditionStatus) {
		t.Helper()
		node := &corev1.Node{}
		must(t, r.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, node))
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(now)}}
		must(t, r.Client.Status().Update(t.Context(), node))
	}
	answers(corev1.ConditionTrue)
	r.shared.agents.expect("a", true)
	agent := func(status corev1.ConditionStatus) { r.shared.agents.set(agentOn("agent-a", "a", status)) }
	for _, step := range []struct {
		what  string
		do    func()
		after time.Duration
		want  string
		again time.Duration
	}{
		{"its agent is ready", func() {}, time.Hour, "", 0},
		{"its agent ends", func() { agent(corev1.ConditionFalse) }, 0, "", agentTimeout},
		{"nobody replaces it", func() {}, agentTimeout, "clock.kubernetsn.io/old=lost", 0},
		{"its agent is back", func() { agent(corev1.ConditionTrue) }, 0, "", 0},
		{"kubelet is away, and its agent not ready", func() { answers(corev1.ConditionFalse); agent(corev1.ConditionFalse) }, time.Hour, "", 0},
		{"kubelet is back", func() { answers(corev1.ConditionTrue) }, time.Second, "", agentTimeout - time.Second},
		{"and no agent comes", func() {}, agentTimeout, "clock.kubernetsn.io/old=lost", 0},
	} {
		step.do()
		now = now.Add(step.after)
		// The API has whole seconds.
		got, again := clockLabelsOf(t, r, l)
		if got != step.want || (again-step.again).Abs() > time.Second {
			t.Errorf("%s: it has labels %q, and is looked at again after %v; want %q, %v", step.what, got, again, step.want, step.again)
		}
	}
}

func TestSlimNodeKeepsClockFields(t *testing.T) {
	began := metav1.NewTime(time.Unix(77, 0))
	kept, err := slimNode(nil)(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"own": "own", v1alpha1.NodeLabel: "true", v1alpha1.ClockLabelPrefix + "old": "lost"}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: began, LastHeartbeatTime: metav1.Now(), Message: "kubelet is posting"},
		}},
	})
	must(t, err)
	node := kept.(*corev1.Node)
	if len(node.Labels) != 2 || node.Labels[v1alpha1.ClockLabelPrefix+"old"] != v1alpha1.ClockLost {
		t.Errorf("its labels are %v", node.Labels)
	}
	// A heartbeat would have each node looked at every few minutes.
	want := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: began}}
	if !reflect.DeepEqual(node.Status.Conditions, want) {
		t.Errorf("its conditions are %+v", node.Status.Conditions)
	}
}

func TestNetworksOfNodeClock(t *testing.T) {
	state := clockSaid("a", "", "")
	state.Spec.Gates = "gates"
	if names := networksOfNodeClock(t.Context(), state); fmt.Sprint(names) != "[old gates]" {
		t.Errorf("these are looked at: %v", names)
	}
}
