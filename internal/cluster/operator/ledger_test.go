// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// TestAnOperatorThatBeginsKnowsWhatNodesHave has parts in TSNNodes, and in a network's status as the release before kept them.
func TestAnOperatorThatBeginsKnowsWhatNodesHave(t *testing.T) {
	network := deleted()
	network.Status.Nodes = []v1alpha1.NodeStatus{{Name: "a", IPv4: "10.42.7.0/24"}, {Name: "b", IPv4: "10.42.8.0/24"}, {Name: "new"}, {Name: "wrong", IPv4: "ten"}}
	moved := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.TSNNodeSpec{Networks: []v1alpha1.NodeNetwork{
		{Name: "gone", IPv4: "10.43.0.0/24"}, {Name: "old", IPv4: "10.42.9.0/24", IPv6: "fd42::/64"}}}}
	r := inCluster(t, network, moved)
	if err := r.shared.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := given(r); got != "map[a:10.42.9.0/24 b:10.42.8.0/24]" {
		t.Errorf("the nodes have %s", got)
	}
	if has := r.shared.parts.ofNode("a"); len(has) != 1 || has["old"].ipv6.String() != "fd42::/64" {
		t.Errorf("node a has %+v, also of a network that is gone", has)
	}
	// What comes later is the record's to say, and not the objects'.
	r.shared.parts.set("old", map[string]part{"a": {ipv4: netip.MustParsePrefix("10.42.1.0/24")}})
	if err := r.shared.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.shared.parts.drop("none")
	if got := given(r); got != "map[a:10.42.1.0/24]" {
		t.Errorf("read again, the nodes have %s", got)
	}
}
