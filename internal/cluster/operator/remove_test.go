// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

func labelledNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{v1alpha1.NodeLabel: v1alpha1.LabelValue}}}
}

func TestRemoveDeletesLabels(t *testing.T) {
	node, other := labelledNode(), labelledNode()
	other.Name, other.Labels = "b", map[string]string{v1alpha1.ClockLabelPrefix + "gone": v1alpha1.ClockLost, "own": "own"}
	r := inCluster(t, node, other)
	must(t, Remove(t.Context(), r.Client, "kubernetsn-system"))
	for name, want := range map[string]int{"a": 0, "b": 1} {
		node := &corev1.Node{}
		if err := r.Client.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil || len(node.Labels) != want {
			t.Errorf("afterwards node %s has labels %v, %v", name, node.Labels, err)
		}
	}
}

func TestRemoveFailsWithPods(t *testing.T) {
	r := inCluster(t, labelledNode(), aPod("default"))
	err := Remove(t.Context(), r.Client, "kubernetsn-system")
	if err == nil || !strings.Contains(err.Error(), "1 pods are on networks or have links; delete them and their controllers first") || !strings.Contains(err.Error(), "default/pod") {
		t.Fatal(err)
	}
	node := &corev1.Node{}
	if err := r.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, node); err != nil || node.Labels[v1alpha1.NodeLabel] == "" {
		t.Errorf("the node has labels %v, %v", node.Labels, err)
	}
}

// listing gives back what each List of a kind is answered with, nil for the truth.
func listing(r *Networks, answer func(list client.ObjectList) error) client.Client {
	return interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := answer(list); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
	})
}

func TestRemoveRetries(t *testing.T) {
	r := inCluster(t, labelledNode())
	asked := map[schema.GroupVersionKind]int{}
	cluster := listing(r, func(list client.ObjectList) error {
		kind, err := r.Client.GroupVersionKindFor(list)
		if err != nil {
			return err
		}
		if asked[kind]++; asked[kind] == 1 {
			return errors.New("connection refused")
		}
		return nil
	})
	must(t, Remove(t.Context(), cluster, "kubernetsn-system"))
	if len(asked) != 3 {
		t.Errorf("asked for %v", asked)
	}
	node := &corev1.Node{}
	if err := r.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, node); err != nil || len(node.Labels) != 0 {
		t.Errorf("afterwards the node has labels %v, %v", node.Labels, err)
	}
}

func TestRemoveWithoutKind(t *testing.T) {
	r := inCluster(t, labelledNode())
	cluster := listing(r, func(list client.ObjectList) error {
		if _, ok := list.(*v1alpha1.TSNNetworkList); ok {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "TSNNetwork"}}
		}
		return nil
	})
	must(t, Remove(t.Context(), cluster, "kubernetsn-system"))
}

func TestCheckDeleted(t *testing.T) {
	inUse := deleted()
	inUse.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInUse,
		Message: "it is being deleted, and is removed when these pods are gone: default/late"}}
	for name, test := range map[string]struct {
		network *v1alpha1.TSNNetwork
		want    string
	}{
		"a pod that came late":        {inUse, "network old is still there: it is being deleted, and is removed when these pods are gone: default/late"},
		"an operator that is missing": {deleted(), "network old is still there; does ktsn-operator run?"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			if err := Remove(ctx, inCluster(t, test.network).Client, "kubernetsn-system"); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
