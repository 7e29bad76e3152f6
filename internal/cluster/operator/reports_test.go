// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// says is a TSNNode that says something of network old, by an agent that knows its generation 3.
func says(ready, operational metav1.ConditionStatus, hash string) *v1alpha1.TSNNode {
	status := v1alpha1.NodeNetworkStatus{Name: "old", ObservedGeneration: 3, ScheduleHash: hash, Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: ready, Reason: "R", Message: "ready is " + string(ready)},
		{Type: v1alpha1.ConditionScheduleOperational, Status: operational, Reason: "S", Message: "operational is " + string(operational)},
	}}
	return &v1alpha1.TSNNode{Status: v1alpha1.TSNNodeStatus{AgentVersion: "1", Networks: []v1alpha1.NodeNetworkStatus{status}}}
}

func TestProblemsWorstFirst(t *testing.T) {
	network := deleted()
	network.Generation = 3
	stale := says(metav1.ConditionTrue, metav1.ConditionTrue, "before")
	stale.Status.Networks[0].ObservedGeneration = 2
	nodes := &nodeSet{all: map[string]*corev1.Node{}, states: map[string]*v1alpha1.TSNNode{
		"a": {}, "b": says(metav1.ConditionTrue, metav1.ConditionFalse, ""), "c": says(metav1.ConditionTrue, metav1.ConditionTrue, "hash"),
		"d": says(metav1.ConditionFalse, metav1.ConditionUnknown, ""), "e": stale, "f": says(metav1.ConditionTrue, metav1.ConditionTrue, "hash"), "idle": says(metav1.ConditionFalse, metav1.ConditionFalse, ""),
		"g": says(metav1.ConditionTrue, metav1.ConditionTrue, "hash"), "h": says(metav1.ConditionFalse, metav1.ConditionTrue, "hash"),
		"i": says(metav1.ConditionTrue, metav1.ConditionTrue, "hash"), "j": stale,
	}, agents: agentsOn("a", "b", "c", "d", "e", "f", "idle")}
	for _, name := range []string{"g", "h", "j"} { // their agents are expected for a while; i's is not yet
		nodes.agents.ensureNode(name).expectedSince = time.Unix(1, 0)
	}
	captured := &nodes.states["i"].Status.Networks[0].Conditions
	*captured = append(*captured, metav1.Condition{Type: v1alpha1.ConditionCaptureOperational, Status: metav1.ConditionFalse, Reason: "C", Message: "no relay"})
	used := newUsage()
	for name := range nodes.states {
		nodes.all[name] = &corev1.Node{}
		if name != "idle" {
			used.onNode[name] = 1
		}
	}
	o := &outcome{network: network, nodes: nodes, used: used, subnets: map[string]subnet{"a": {}, "idle": {}}, request: &v1alpha1.ScheduleRequest{Hash: "hash"}}
	o.reports = reportsOf(o)
	o.problems = problemsOf(network, o.reports, map[string]error{"f": errors.New("it has no address")})
	var got []string
	for _, p := range worst(o.problems) {
		got = append(got, fmt.Sprintf("%s %s %s: %s", p.Node, p.Type, p.Reason, p.Message))
	}
	want := []string{
		"d Ready R: ready is False", "f Ready NodeLeftOut: it has no address", "h Ready R: ready is False",
		"b ScheduleOperational S: operational is False", "i CaptureOperational C: no relay",
		"g Ready NodeSilent: " + fmt.Sprintf(noAgent, "g"), "j Ready NodeSilent: " + fmt.Sprintf(noAgent, "j"),
		"a Ready WaitingForNodes: it has not reported yet that it serves the network", "e Ready WaitingForNodes: it has not reported yet that it serves the network",
		"i Ready WaitingForNodes: it has not reported yet that it serves the network",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := *countNodes(o), (v1alpha1.NodeCounts{Allocated: 2, WithPods: 10, Ready: 3, ScheduleOperational: 2}); got != want {
		t.Errorf("counted are %+v, want %+v", got, want)
	}
}

func TestNodeProblemsLimit(t *testing.T) {
	network, used, nodes := deleted(), newUsage(), &nodeSet{all: map[string]*corev1.Node{}, agents: agentsOn()}
	for name := range nodesNamed(1000) {
		nodes.all[name], used.onNode[name] = &corev1.Node{}, 1
	}
	problems := problemsOf(network, reportsOf(&outcome{network: network, nodes: nodes, used: used}), nil)
	if named := worst(problems); len(problems) != 1000 || len(named) != 50 || named[49].Node != "node-0049" {
		t.Errorf("%d problems are named as %d", len(problems), len(worst(problems)))
	}
}

// An agent may say as much as a condition of its TSNNode holds; the network's own hold no more.
func TestNodeMessageIsShortened(t *testing.T) {
	network, used, nodes := deleted(), newUsage(), &nodeSet{all: map[string]*corev1.Node{}, states: map[string]*v1alpha1.TSNNode{}, agents: agentsOn()}
	network.Generation = 3
	for name := range nodesNamed(100) {
		state := says(metav1.ConditionFalse, metav1.ConditionFalse, "")
		for i := range state.Status.Networks[0].Conditions {
			state.Status.Networks[0].Conditions[i].Message = strings.Repeat("é", mostOfCondition/2)
		}
		nodes.all[name], nodes.states[name], used.onNode[name] = &corev1.Node{}, state, 1
	}
	problems := problemsOf(network, reportsOf(&outcome{network: network, nodes: nodes, used: used}), nil)
	for _, condition := range conditions(network, nil, findingsOf(problems), nil) {
		if len(condition.Message) > mostOfCondition || !utf8.ValidString(condition.Message) {
			t.Errorf("the message of condition %s has %d bytes", condition.Type, len(condition.Message))
		}
	}
	for _, problem := range worst(problems) {
		if want := strings.Repeat("é", maxMessageBytes/2) + "..."; problem.Message != want {
			t.Fatalf("of what node %s says %d bytes are named, want %d", problem.Node, len(problem.Message), len(want))
		}
	}
}

// mostOfCondition is what the API server takes of a condition's message, in bytes.
const mostOfCondition = 32768

// TestJoinDeduplicates uses more findings than a condition's message lists.
func TestJoinDeduplicates(t *testing.T) {
	r := inCluster(t)
	events := r.Events.(*record.FakeRecorder)
	var findings []finding
	for i := range 8 {
		findings = append(findings, finding{reason: "R", text: fmt.Sprint("fault ", i), blocks: true})
	}
	network := deleted()
	network.Status.Conditions = []metav1.Condition{{Message: "fault 0; fault 1"}} // of an operator before this one
	for range 3 {
		r.createEvents(network, findings)
	}
	if count := len(events.Events); count != 6 {
		t.Errorf("there are %d Events, want 6", count)
	}
	r.createEvents(network, findings[1:])
	r.createEvents(network, findings)
	if count := len(events.Events); count != 7 {
		t.Errorf("there are %d Events when one is found again, want 7", count)
	}
}

// TestSilentPeerIsReported has a thousand nodes that do not hear the same one.
func TestSilentPeerIsReported(t *testing.T) {
	network, used, nodes := deleted(), newUsage(), &nodeSet{all: map[string]*corev1.Node{}, states: map[string]*v1alpha1.TSNNode{}, agents: agentsOn()}
	network.Generation = 3
	for name := range nodesNamed(1000) {
		state := says(metav1.ConditionTrue, metav1.ConditionTrue, "")
		conditions := &state.Status.Networks[0].Conditions
		*conditions = append(*conditions, metav1.Condition{Type: v1alpha1.ConditionPeersReachable, Status: metav1.ConditionFalse,
			Reason: v1alpha1.ReasonPeerSilent, Message: name + " does not hear node-1000"})
		nodes.all[name], nodes.states[name], used.onNode[name] = &corev1.Node{}, state, 1
	}
	problems := problemsOf(network, reportsOf(&outcome{network: network, nodes: nodes, used: used}), nil)
	findings := findingsOf(problems)
	for _, condition := range conditions(network, nil, findings) {
		degraded := condition.Type == v1alpha1.ConditionDegraded
		if degraded && (condition.Status != metav1.ConditionTrue || condition.Reason != v1alpha1.ReasonPeerSilent || !strings.Contains(condition.Message, "node-0000 does not hear node-1000")) ||
			condition.Type == v1alpha1.ConditionReady && condition.Status == metav1.ConditionFalse && condition.Reason == v1alpha1.ReasonPeerSilent {
			t.Errorf("condition %+v", condition)
		}
	}
	r := inCluster(t)
	r.createEvents(network, findings)
	network.Status.NodeProblems = worst(problems)
	newNetworks(r.shared, r.Client, r.Events, "", nil).createEvents(network, findings) // of the next operator
	events, silent := r.Events.(*record.FakeRecorder).Events, 0
	for len(events) > 0 {
		if strings.Contains(<-events, v1alpha1.ReasonPeerSilent) {
			silent++
		}
	}
	if silent != 1 {
		t.Errorf("%d Events about the same peer", silent)
	}
}

func TestStatusInterval(t *testing.T) {
	for nodes, want := range map[int]time.Duration{0: time.Second, 3: time.Second, 200: time.Second, 201: 1005 * time.Millisecond, 1000: 5 * time.Second} {
		if duration := statusInterval(nodes); duration != want {
			t.Errorf("with %d nodes it is written every %v, want %v", nodes, duration, want)
		}
	}
}

func TestPace(t *testing.T) {
	now := time.Unix(100, 0)
	p := newPace(func() time.Time { return now })
	if wait := p.wait("a", time.Second); wait != 0 {
		t.Errorf("the first waits %v", wait)
	}
	p.done("a")
	now = now.Add(300 * time.Millisecond)
	if wait := p.wait("a", time.Second); wait != 700*time.Millisecond {
		t.Errorf("the second waits %v", wait)
	}
	if wait := p.wait("b", time.Second); wait != 0 {
		t.Errorf("another network's waits %v", wait)
	}
	now = now.Add(time.Hour)
	if wait := p.wait("a", time.Second); wait != 0 {
		t.Errorf("one much later waits %v", wait)
	}
}

// TestReportWithoutAgent ends an agent without a replacement.
func TestReportWithoutAgent(t *testing.T) {
	network := deleted()
	network.DeletionTimestamp, network.Generation, network.Spec.TrafficClasses = nil, 3, nil
	state := says(metav1.ConditionTrue, metav1.ConditionTrue, "")
	state.Name = "a"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}
	r := inCluster(t, node, state, network, aPod("default"))
	now := time.Now()
	r.shared.agents.now = func() time.Time { return now }
	look := func() (ready int32, again time.Duration) {
		t.Helper()
		now = now.Add(writeInterval)
		r.pace.now = func() time.Time { return now }
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(network)})
		must(t, err)
		return get(t, r).Status.NodeCounts.Ready, result.RequeueAfter
	}
	for _, step := range []struct {
		what      string
		readiness corev1.ConditionStatus
		after     time.Duration
		ready     int32
		again     time.Duration
	}{
		{"it is ready", corev1.ConditionTrue, 0, 1, resyncPeriod},
		{"it ends", corev1.ConditionFalse, 0, 1, agentTimeout - writeInterval},
		{"it is back", corev1.ConditionTrue, 0, 1, resyncPeriod},
		{"it ends for good", corev1.ConditionFalse, 0, 1, agentTimeout - writeInterval},
		{"nobody replaces it", corev1.ConditionFalse, agentTimeout, 0, retryPeriod},
	} {
		r.shared.agents.set(agentOn("agent", "a", step.readiness))
		now = now.Add(step.after)
		if ready, again := look(); ready != step.ready || again != step.again {
			t.Errorf("%s: %d nodes are ready, and it is looked at again after %v; want %d, %v", step.what, ready, again, step.ready, step.again)
		}
	}
	status := get(t, r).Status
	if problems := status.NodeProblems; len(problems) != 1 || problems[0].Message != fmt.Sprintf(noAgent, "a") {
		t.Errorf("the problems are %+v", problems)
	}
	for kind, want := range map[string]metav1.ConditionStatus{v1alpha1.ConditionReady: metav1.ConditionFalse, v1alpha1.ConditionDegraded: metav1.ConditionTrue} {
		if condition := meta.FindStatusCondition(status.Conditions, kind); condition == nil || condition.Status != want || condition.Reason != v1alpha1.ReasonNodeSilent {
			t.Errorf("condition %s is %+v, want %v for %s", kind, condition, want, v1alpha1.ReasonNodeSilent)
		}
	}
	if events := r.Events.(*record.FakeRecorder).Events; len(events) != 1 || !strings.Contains(<-events, v1alpha1.ReasonNodeSilent) {
		t.Errorf("there are %d Events beside one of a node that is silent", len(events))
	}
}

// TestFailedStatusWriteIsNotPaced lets the API server reject one write, with many nodes.
func TestFailedStatusWriteIsNotPaced(t *testing.T) {
	network := deleted()
	network.DeletionTimestamp = nil
	r := inCluster(t, network)
	written := r.Client
	r.Client = interceptor.NewClient(written.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return errors.New("connection refused")
		},
	})
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(network)}
	if _, err := r.Reconcile(t.Context(), request); err == nil || r.pace.wait("old", time.Hour) > 0 {
		t.Errorf("got %v, and is written again after %v", err, r.pace.wait("old", time.Hour))
	}
	r.Client = written
	if _, err := r.Reconcile(t.Context(), request); err != nil || r.pace.wait("old", time.Hour) == 0 {
		t.Errorf("got %v, and what was written does not wait", err)
	}
}

func TestUrgentStatus(t *testing.T) {
	network := deleted()
	network.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady}}
	same := network.Status.DeepCopy
	for name, test := range map[string]struct {
		change   func(status *v1alpha1.TSNNetworkStatus)
		pressing bool
	}{
		"nothing":          {func(*v1alpha1.TSNNetworkStatus) {}, false},
		"a count of nodes": {func(status *v1alpha1.TSNNetworkStatus) { status.NodesReady = "1/2" }, false},
		"a schedule":       {func(status *v1alpha1.TSNNetworkStatus) { status.Schedule.Hash = "other" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			status := same()
			test.change(status)
			if ok := mustWriteNow(network, status); ok != test.pressing {
				t.Errorf("it presses: %v, want %v", ok, test.pressing)
			}
		})
	}
}
