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
	index := newAgentIndex(agentPatience, time.Now)
	for _, node := range nodes {
		index.set(agentOn("agent-"+node, node, corev1.ConditionTrue))
	}
	return index
}

func TestWhatIsReportedCountsAsLongAsAnAgentCouldSayOtherwise(t *testing.T) {
	now := time.Unix(100, 0)
	index := newAgentIndex(agentPatience, func() time.Time { return now })
	set := func(name, node string, ready corev1.ConditionStatus) func() string {
		return func() string { return index.set(agentOn(name, node, ready)) }
	}
	remove := func(name string) func() string {
		return func() string { return index.remove(types.NamespacedName{Namespace: "system", Name: name}) }
	}
	for _, step := range []struct {
		what                string
		do                  func() string
		after               time.Duration
		concerns            string
		counts, passes, has bool
	}{
		{"a pod that nobody knows goes", remove("one"), 0, "", false, false, false},
		{"a pod without a node", set("one", "", corev1.ConditionFalse), 0, "", false, false, false},
		{"it starts on the node", set("one", "a", corev1.ConditionFalse), 0, "a", false, false, true},
		{"it reports, and kubelet has not seen yet that it is ready", func() string { index.heard("a"); return "" }, 0, "", true, true, true},
		{"kubelet does not see it", set("one", "a", corev1.ConditionFalse), agentPatience, "", false, false, true},
		{"it is ready", set("one", "a", corev1.ConditionTrue), time.Hour, "a", true, false, true},
		{"it still is", set("one", "a", corev1.ConditionTrue), time.Hour, "", true, false, true},
		{"it ends", set("one", "a", corev1.ConditionFalse), 0, "a", true, true, true},
		{"it is gone", remove("one"), agentPatience / 2, "a", true, true, true},
		{"its successor starts", set("two", "a", corev1.ConditionFalse), 0, "a", true, true, true},
		{"it is not ready in time", set("two", "a", corev1.ConditionFalse), agentPatience, "", false, false, true},
		{"it is at last", set("two", "a", corev1.ConditionTrue), time.Hour, "a", true, false, true},
		{"its successor is there before it ends", set("three", "a", corev1.ConditionTrue), 0, "a", true, false, true},
		{"it ends then", remove("two"), time.Hour, "a", true, false, true},
		{"the node does not answer", set("three", "a", corev1.ConditionUnknown), agentPatience, "a", false, false, true},
		{"its pod goes", remove("three"), 0, "a", false, false, false},
		{"another one goes", func() string { set("four", "b", corev1.ConditionTrue)(); return remove("four")() }, 0, "b", false, false, false},
	} {
		concerns := step.do()
		now = now.Add(step.after)
		counts, left := index.counts("a")
		if has := index.has("a"); concerns != step.concerns || counts != step.counts || (left > 0) != step.passes || has != step.has {
			t.Errorf("%s: it concerns node %q, a report counts: %v, for %v, there is an agent: %v; want %q, %v, not for ever: %v, %v",
				step.what, concerns, counts, left, has, step.concerns, step.counts, step.passes, step.has)
		}
	}
	now = now.Add(agentPatience)
	index.set(agentOn("five", "c", corev1.ConditionTrue))
	index.remove(types.NamespacedName{Namespace: "system", Name: "five"})
	if len(index.pods) != 0 || len(index.nodes) != 1 {
		t.Errorf("of nodes without an agent %v is kept, and of pods %v", index.nodes, index.pods)
	}
}
