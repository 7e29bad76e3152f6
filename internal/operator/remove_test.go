// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

func labelledNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{v1alpha1.NodeLabel: v1alpha1.LabelValue}}}
}

func TestNodesLoseTheLabelWithTheNetworks(t *testing.T) {
	r := newNetworks(t, labelledNode())
	if err := Remove(t.Context(), r.Client); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{}
	if err := r.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, node); err != nil || len(node.Labels) != 0 {
		t.Errorf("afterwards it has labels %v, %v", node.Labels, err)
	}
}

func TestNothingIsRemovedWhileThereArePods(t *testing.T) {
	r := newNetworks(t, labelledNode(), aPod("default"))
	err := Remove(t.Context(), r.Client)
	if err == nil || !strings.Contains(err.Error(), "1 pods are on networks; remove them first") || !strings.Contains(err.Error(), "default/pod") {
		t.Fatal(err)
	}
	node := &corev1.Node{}
	if err := r.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, node); err != nil || node.Labels[v1alpha1.NodeLabel] == "" {
		t.Errorf("the node has labels %v, %v", node.Labels, err)
	}
}
