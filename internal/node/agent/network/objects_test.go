// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

func TestTheClustersNetworksAreThoseOfTheirObjects(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	object := &v1alpha1.TSNNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: "tsn"},
		Spec: v1alpha1.TSNNetworkSpec{
			VNI: 42, MTU: 1400, IPv4: v1alpha1.Range4{CIDR: "10.42.0.0/16", NodePrefixLength: 24},
			IPv6:    &v1alpha1.Range6{CIDR: "fd42::/48", NodePrefixLength: 64},
			Uplinks: []v1alpha1.Uplink{{Interface: "eno2", NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "1"}}}},
		},
		Status: v1alpha1.TSNNetworkStatus{Nodes: []v1alpha1.NodeStatus{
			{Name: "a", IPv4: "10.42.5.0/24", IPv6: "fd42:0:0:5::/64"}, {Name: "b", IPv4: "10.42.6.0/24", IPv6: "fd42:0:0:6::/64"},
			{Name: "half", IPv4: "10.42.7.0/24"}, {Name: "none"},
		}},
	}
	nodes := []Node{{Name: "a"}, {Name: "b"}, {Name: "half"}, {Name: "none"}, {Name: "new"}}
	for name, test := range map[string]struct{ rack, uplink, parts string }{
		"on a node with the uplink": {"1", "eno2", "map[a:[10.42.5.0/24 fd42:0:0:5::/64] b:[10.42.6.0/24 fd42:0:0:6::/64]]"},
		"on one without":            {"2", "", "map[b:[10.42.6.0/24 fd42:0:0:6::/64]]"},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"rack": test.rack}}}
			source := Objects{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(object.DeepCopy(), node).Build(), Node: "a"}
			networks, err := source.Networks(t.Context())
			if err != nil || len(networks) != 1 {
				t.Fatalf("got %v, %v", networks, err)
			}
			n := networks[0]
			if n.Name != "tsn" || n.VNI != 42 || n.MTU != 1400 || n.Port != 4789 || n.Uplink != test.uplink || len(n.Ranges) != 2 {
				t.Errorf("got %+v", n)
			}
			parts, faults := Assign(&n, nodes)
			if got := fmt.Sprint(parts); len(faults) > 0 || got != test.parts {
				t.Errorf("nodes have %s, %v, want %s", got, faults, test.parts)
			}
		})
	}
}

func TestASelectorThatIsNoneCostsItsNetworkOnly(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	status := v1alpha1.TSNNetworkStatus{Nodes: []v1alpha1.NodeStatus{{Name: "a", IPv4: "10.42.5.0/24"}, {Name: "b", IPv4: "10.42.6.0/24"}}}
	spec := v1alpha1.TSNNetworkSpec{VNI: 42, IPv4: v1alpha1.Range4{CIDR: "10.42.0.0/16", NodePrefixLength: 24}}
	good := &v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "good"}, Spec: spec, Status: status}
	wrong := good.DeepCopy()
	wrong.Name = "wrong"
	wrong.Spec.Uplinks = []v1alpha1.Uplink{{Interface: "eno2", NodeSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rack", Operator: "Is"}}}}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	source := Objects{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(good, wrong, node).Build(), Node: "a"}
	networks, err := source.Networks(t.Context())
	if err != nil {
		t.Fatalf("no network at all: %v", err)
	}
	for _, n := range networks {
		if _, has := n.Assigned["a"]; has != (n.Name == "good") || n.Assigned["b"] == nil {
			t.Errorf("network %s is of %v", n.Name, n.Assigned)
		}
	}
}
