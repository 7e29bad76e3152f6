// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestUnfitNodes(t *testing.T) {
	ready := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node := func(name, address string, labels map[string]string, conditions []corev1.NodeCondition) *corev1.Node {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Status: corev1.NodeStatus{Conditions: conditions}}
		if address != "" {
			node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		}
		return node
	}
	r := inCluster(t, node("usual", "192.0.2.1", nil, ready), node("away", "192.0.2.2", nil, nil), node("switched", "192.0.2.3", map[string]string{"uplink": "ovs"}, ready),
		node("lost", "", nil, ready))
	switched, err := switchedSelector("uplink=ovs")
	must(t, err)
	set, err := listNodes(t.Context(), r.Client, nil, &tunnels{})
	must(t, err)
	nodes := newLinks(r.shared, r.Client, "", nil, switched).nodeStates(set)
	for name, want := range map[string]string{"usual": "", "away": "", "switched": "its uplink is an Open vSwitch bridge", "lost": "it has no IPv4 InternalIP"} {
		if node := nodes[name]; !strings.HasPrefix(node.Unfit, want) || (node.Unfit == "") != (want == "") || node.Ready != (name != "away") {
			t.Errorf("%s: %+v, want %q", name, node, want)
		}
	}
	if _, err := switchedSelector("a=b=c"); err == nil || !strings.Contains(err.Error(), `--switched-nodes "a=b=c" is no selector of labels`) {
		t.Errorf("got %v", err)
	}
}
