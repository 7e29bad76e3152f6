// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// said is a TSNNode with a part of network tsn that has pods, and these conditions.
func said(name string, conditions ...metav1.Condition) v1alpha1.TSNNode {
	node := v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.TSNNodeSpec{
		Networks: []v1alpha1.NodeNetwork{{Name: "other", IPv4: "10.43.1.0/24"}, {Name: "tsn", IPv4: "10.42.1.0/24", Pods: 3}}}}
	if len(conditions) > 0 {
		node.Status.Networks = []v1alpha1.NodeNetworkStatus{{Name: "tsn", Uplink: "eth0", LinkSpeed: "1Gbit", Conditions: conditions}}
	}
	return node
}

var (
	good    = metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "AsAsked"}
	bad     = metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "NodeNotReady", Message: "kubelet"}
	runs    = metav1.Condition{Type: v1alpha1.ConditionScheduleOperational, Status: metav1.ConditionTrue}
	refused = metav1.Condition{Type: v1alpha1.ConditionScheduleOperational, Status: metav1.ConditionFalse}
	drifts  = metav1.Condition{Type: v1alpha1.ConditionClockSynchronized, Status: metav1.ConditionFalse, Reason: "ClockUnsynchronized", Message: "run ptp4l"}
	pending = metav1.Condition{Type: v1alpha1.ConditionScheduleOperational, Status: metav1.ConditionUnknown}
)

func TestStatesOfSortsWorstFirst(t *testing.T) {
	idle := said("idle")
	idle.Spec.Networks[1].Pods = 0
	elsewhere := said("elsewhere")
	elsewhere.Spec.Networks = elsewhere.Spec.Networks[:1]
	var names []string
	for _, state := range statesOf("tsn", []v1alpha1.TSNNode{
		said("well", good, runs), idle, elsewhere, said("pending", good, pending), said("refused", good, refused), said("drifts", good, runs, drifts), said("silent"), said("bad", bad, runs),
		said("also-bad", bad),
	}) {
		names = append(names, state.Name)
	}
	if got := strings.Join(names, " "); got != "also-bad bad silent refused drifts pending idle well" {
		t.Errorf("got %s", got)
	}
}

func TestOverviewLimitsRows(t *testing.T) {
	var nodes []v1alpha1.TSNNode
	for i := range 1000 {
		nodes = append(nodes, said(fmt.Sprintf("node-%04d", i), good))
	}
	nodes[987].Status.Networks[0].Conditions[0] = bad
	all := &overview{Nodes: nodes, Networks: []v1alpha1.TSNNetwork{{
		ObjectMeta: metav1.ObjectMeta{Name: "tsn"},
		Status:     v1alpha1.TSNNetworkStatus{NodeCounts: &v1alpha1.NodeCounts{Allocated: 1000, WithPods: 999, Ready: 998}},
	}}}
	for i := range 1000 {
		all.Ktsnd = append(all.Ktsnd, podState{nodes[i].Name, fmt.Sprintf("ktsnd-%04d", i), true})
	}
	var out strings.Builder
	if err := printOverview(&out, all); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) > 2*maxRows+10 {
		t.Errorf("it shows %d lines", len(lines))
	}
	for _, want := range []string{
		"nodes: 1000 have a part of it, 999 pods, 998 are ready, 0 execute its schedule", "NodeNotReady: kubelet", "and 950 more; -o json has all",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not show %q", want)
		}
	}
	out.Reset()
	about := &v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "tsn"}, Status: v1alpha1.TSNNetworkStatus{Schedule: &v1alpha1.ScheduleRequest{}}}
	if err := printNetworkSchedule(&out, about, statesOf("tsn", nodes), true); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "node-"); got != maxRows || !strings.Contains(out.String(), "and 950 more; -o json has all") {
		t.Errorf("the schedule is shown on %d nodes", got)
	}
}

func TestSlowest(t *testing.T) {
	states := []nodeState{{Name: "a", LinkSpeed: "10Gbit"}, {Name: "b"}, {Name: "c", LinkSpeed: "1Gbit"}}
	for name, test := range map[string]struct {
		spec  string
		nodes []nodeState
		bps   int64
		whose string
	}{
		"spec":  {"100Mbit", states, 1e8, "spec.linkSpeed"},
		"nodes": {"", states, 1e9, "node c"},
		"guess": {"", states[1:2], defaultLinkSpeedBps, "a guess, because no node has reported its own"},
	} {
		t.Run(name, func(t *testing.T) {
			bps, whose, err := slowest(&v1alpha1.TSNNetwork{Spec: v1alpha1.TSNNetworkSpec{LinkSpeed: test.spec}}, test.nodes)
			if err != nil || bps != test.bps || whose != test.whose {
				t.Errorf("got %d, %s, %v", bps, whose, err)
			}
		})
	}
	if _, _, err := slowest(&v1alpha1.TSNNetwork{}, []nodeState{{Name: "x", LinkSpeed: "fast"}}); err == nil || !strings.HasPrefix(err.Error(), "link speed of node x: ") {
		t.Errorf("got %v", err)
	}
}

func TestOverviewShowsReceivePath(t *testing.T) {
	for name, test := range map[string]struct {
		receive *v1alpha1.Receive
		want    string
	}{
		"by the kernel's path":      {nil, "-"},
		"by defaults":               {&v1alpha1.Receive{}, "by Bridge, rings Refused"},
		"past the bridge, in rings": {&v1alpha1.Receive{Path: v1alpha1.ReceiveRedirect, Rings: v1alpha1.RingsAllowed}, "by Redirect, rings Allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := receiveInShort(test.receive); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
