// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

func labelledNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{v1alpha1.NodeLabel: v1alpha1.LabelValue}}}
}

// The agent goes with the label, and a kubelet needs it to unmount.
func TestNodesKeepTheirAgentsWhileKubeletsUnmount(t *testing.T) {
	const settle = 300 * time.Millisecond
	r := newNetworks(t, labelledNode())
	removed := make(chan error, 1)
	go func() { removed <- Remove(t.Context(), r.Client, settle) }()
	time.Sleep(settle / 3)
	node := &corev1.Node{}
	if err := r.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, node); err != nil || node.Labels[v1alpha1.NodeLabel] == "" {
		t.Errorf("before the time was over the node had labels %v, %v", node.Labels, err)
	}
	if err := <-removed; err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, node); err != nil || len(node.Labels) != 0 {
		t.Errorf("afterwards it has labels %v, %v", node.Labels, err)
	}
}

func TestNothingIsRemovedWhileThereArePods(t *testing.T) {
	r := newNetworks(t, labelledNode(), aPod("default"))
	err := Remove(t.Context(), r.Client, 0)
	if err == nil || !strings.Contains(err.Error(), "1 pods are on networks; remove them first") || !strings.Contains(err.Error(), "default/pod") {
		t.Fatal(err)
	}
	node := &corev1.Node{}
	if err := r.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, node); err != nil || node.Labels[v1alpha1.NodeLabel] == "" {
		t.Errorf("the node has labels %v, %v", node.Labels, err)
	}
}
