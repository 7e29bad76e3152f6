// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// agentOn is the pod of an agent; node may be "".
func agentOn(name, node string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "system"}, Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: ready},
		}},
	}
}

// agentsOn are agents that are ready on these nodes.
func agentsOn(nodes ...string) *agentIndex {
	index := newAgentIndex(agentTimeout, time.Now)
	for _, node := range nodes {
		index.set(agentOn("agent-"+node, node, corev1.ConditionTrue))
	}
	return index
}

func TestReportValidity(t *testing.T) {
	now := time.Unix(100, 0)
	index := newAgentIndex(agentTimeout, func() time.Time { return now })
	index.markSynced()
	now = now.Add(agentTimeout) // this operator has begun long ago
	set := func(name, node string, ready corev1.ConditionStatus) func() string {
		return func() string { return index.set(agentOn(name, node, ready)) }
	}
	remove := func(name string) func() string {
		return func() string { return index.remove(types.NamespacedName{Namespace: "system", Name: name}) }
	}
	expect := func(agent bool) func() string {
		return func() string { index.expect("a", agent); return "" }
	}
	for _, step := range []struct {
		what        string
		do          func() string
		after       time.Duration
		concerns    string
		worth       reportValidity
		passes, has bool
	}{
		{"a pod that nobody knows goes", remove("one"), 0, "", reportStale, false, false},
		{"a pod without a node", set("one", "", corev1.ConditionFalse), 0, "", reportStale, false, false},
		{"the node is given the label", expect(true), agentTimeout / 2, "", reportStale, true, false},
		{"it starts on the node", set("one", "a", corev1.ConditionFalse), agentTimeout / 2, "a", reportStale, true, true},
		{"it reports, and kubelet has not seen yet that it is ready", func() string { index.recordReport("a"); return "" }, 0, "", reportCurrent, true, true},
		{"kubelet does not see it", set("one", "a", corev1.ConditionFalse), agentTimeout, "", agentMissing, false, true},
		{"it is ready", set("one", "a", corev1.ConditionTrue), time.Hour, "a", reportCurrent, false, true},
		{"it still is", set("one", "a", corev1.ConditionTrue), time.Hour, "", reportCurrent, false, true},
		{"it ends", set("one", "a", corev1.ConditionFalse), 0, "a", reportCurrent, true, true},
		{"it is gone", remove("one"), agentTimeout / 2, "a", reportCurrent, true, true},
		{"its successor starts", set("two", "a", corev1.ConditionFalse), 0, "a", reportCurrent, true, true},
		{"it is not ready yet", set("two", "a", corev1.ConditionFalse), agentTimeout / 2, "", reportStale, true, true},
		{"it is not ready in time", set("two", "a", corev1.ConditionFalse), agentTimeout / 2, "", agentMissing, false, true},
		{"it is at last", set("two", "a", corev1.ConditionTrue), time.Hour, "a", reportCurrent, false, true},
		{"its successor is there before it ends", set("three", "a", corev1.ConditionTrue), 0, "a", reportCurrent, false, true},
		{"it ends then", remove("two"), time.Hour, "a", reportCurrent, false, true},
		{"the node does not answer", set("three", "a", corev1.ConditionUnknown), agentTimeout, "a", agentMissing, false, true},
		{"its pod goes", remove("three"), 0, "a", agentMissing, false, false},
		{"the node loses the label", expect(false), 0, "", reportStale, false, false},
		{"another one goes", func() string { set("four", "b", corev1.ConditionTrue)(); return remove("four")() }, 0, "b", reportStale, false, false},
	} {
		concerns := step.do()
		now = now.Add(step.after)
		worth, left := index.validity("a")
		if has := index.has("a"); concerns != step.concerns || worth != step.worth || (left > 0) != step.passes || has != step.has {
			t.Errorf("%s: it concerns node %q, a report is worth %v, for %v, there is an agent: %v; want %q, %v, not for ever: %v, %v",
				step.what, concerns, worth, left, has, step.concerns, step.worth, step.passes, step.has)
		}
	}
	now = now.Add(agentTimeout)
	for _, node := range []string{"b", "c"} {
		index.expect(node, false)
	}
	if len(index.pods) != 0 || len(index.nodes) != 0 {
		t.Errorf("of nodes without an agent %v is kept, and of pods %v", index.nodes, index.pods)
	}
}

// TestReportValidityAfterStart starts the operator while agents are being replaced, as in an upgrade of the chart.
func TestReportValidityAfterStart(t *testing.T) {
	now := time.Unix(100, 0)
	index := newAgentIndex(agentTimeout, func() time.Time { return now })
	now = now.Add(time.Hour) // it stands by
	index.set(agentOn("starts", "a", corev1.ConditionFalse))
	for _, node := range []string{"a", "between-two"} {
		index.expect(node, true)
	}
	index.markSynced()
	for _, node := range []string{"a", "between-two", "idle"} {
		if worth, left := index.validity(node); worth != reportCurrent || left != agentTimeout {
			t.Errorf("what node %s has reported is worth %v for %v, want %v for %v", node, worth, left, reportCurrent, agentTimeout)
		}
	}
	now = now.Add(agentTimeout)
	for node, want := range map[string]reportValidity{"a": agentMissing, "between-two": agentMissing, "idle": reportStale} {
		if worth, left := index.validity(node); worth != want || left != 0 {
			t.Errorf("%v later what node %s has reported is worth %v for %v, want %v", agentTimeout, node, worth, left, want)
		}
	}
}

// TestReportStaleAfterRelabel expects a report of the previous agent to be stale while the next one starts.
func TestReportStaleAfterRelabel(t *testing.T) {
	now := time.Unix(100, 0)
	index := newAgentIndex(agentTimeout, func() time.Time { return now })
	index.set(agentOn("before", "a", corev1.ConditionTrue))
	now = now.Add(time.Hour)
	index.expect("a", false)
	index.remove(types.NamespacedName{Namespace: "system", Name: "before"})
	index.expect("a", true)
	index.set(agentOn("after", "a", corev1.ConditionFalse))
	if worth, _ := index.validity("a"); worth != reportStale {
		t.Errorf("what it reported is worth %v, want %v", worth, reportStale)
	}
	index.recordReport("a")
	if worth, _ := index.validity("a"); worth != reportCurrent {
		t.Errorf("what it reports is worth %v, want %v", worth, reportCurrent)
	}
}
