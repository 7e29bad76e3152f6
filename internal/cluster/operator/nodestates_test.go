// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// TestSubnetInOneTSNNode has the only part of a network moved from a node whose last pod has gone to one with a pod. An operator
// that ends at any time leaves behind who has the part.
func TestSubnetInOneTSNNode(t *testing.T) {
	network := deleted()
	network.DeletionTimestamp, network.Status = nil, v1alpha1.TSNNetworkStatus{}
	network.Spec.IPv4 = v1alpha1.Range4{CIDR: "10.42.0.0/24", NodePrefixLength: 24}
	active := map[string]string{v1alpha1.NodeLabel: v1alpha1.LabelValue}
	idle, busy := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "idle", Labels: active}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: active}}
	had := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: "idle"}, Spec: v1alpha1.TSNNodeSpec{Networks: []v1alpha1.NodeNetwork{{Name: "old", IPv4: "10.42.0.0/24"}}}}
	r := inCluster(t, idle, busy, had, network, aPod("default"))
	states := newNodeStates(r.shared, r.Client)
	r.lookAt(t)
	if got := given(r); got != "map[a:10.42.0.0/24]" {
		t.Fatalf("the nodes have %s", got)
	}
	for _, step := range []struct {
		node  string
		have  []string
		waits time.Duration // ever longer
	}{
		{"a", []string{"idle"}, conflictRetryDelay}, {"a", []string{"idle"}, 2 * conflictRetryDelay}, {"idle", nil, 0}, {"a", []string{"a"}, 0}, {"a", []string{"a"}, 0},
	} {
		result, err := states.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: step.node}})
		if err != nil || result.RequeueAfter != step.waits {
			t.Fatalf("node %s is looked at again after %v, %v", step.node, result.RequeueAfter, err)
		}
		var all v1alpha1.TSNNodeList
		must(t, r.Client.List(t.Context(), &all))
		var have []string
		for i := range all.Items {
			if networkOf(&all.Items[i], "old") != nil {
				have = append(have, all.Items[i].Name)
			}
		}
		if !slices.Equal(have, step.have) {
			t.Fatalf("after a look at node %s, nodes %v have the part, want %v", step.node, have, step.have)
		}
	}
	if again := states.backoff.When("a"); again != conflictRetryDelay {
		t.Errorf("when it waits the next time, it is looked at again after %v, want %v", again, conflictRetryDelay)
	}
	for range 10 {
		states.backoff.When("a")
	}
	if again := states.backoff.When("a"); again != maxBackoff {
		t.Errorf("it is looked at again after %v at most, want %v", again, maxBackoff)
	}
	if givers := fmt.Sprint(r.shared.subnets.previousOwnersOf("old", "a")); givers != "[]" {
		t.Errorf("it is still said to be of %s", givers)
	}
}
