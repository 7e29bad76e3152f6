// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

func newPeers(name, network string, nodes ...v1alpha1.PeerNode) *v1alpha1.TSNPeers {
	return &v1alpha1.TSNPeers{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.NetworkLabel: network}},
		Spec:       v1alpha1.TSNPeersSpec{Network: network, Nodes: nodes},
	}
}

func TestPeersValidation(t *testing.T) {
	ctx := needServer(t)
	good := v1alpha1.PeerNode{Name: "a", Address: "192.0.2.1", IPv4: "10.42.1.0/24", IPv6: "fd42:0:0:1::/64"}
	for name, test := range map[string]struct {
		change   func(*v1alpha1.TSNPeers)
		sentence string
	}{
		"a node":            {func(*v1alpha1.TSNPeers) {}, ""},
		"one without IPv6":  {func(p *v1alpha1.TSNPeers) { p.Spec.Nodes[0].IPv6 = "" }, ""},
		"none":              {func(p *v1alpha1.TSNPeers) { p.Spec.Nodes = nil }, ""},
		"another cluster's": {func(p *v1alpha1.TSNPeers) { p.Spec.Cluster = "plant-2" }, ""},
		"as many as may be": {func(p *v1alpha1.TSNPeers) { p.Spec.Nodes = manyPeers(v1alpha1.MaxPeers) }, ""},
		"one more":          {func(p *v1alpha1.TSNPeers) { p.Spec.Nodes = manyPeers(v1alpha1.MaxPeers + 1) }, "must have at most 100 items"},
		"one twice":         {func(p *v1alpha1.TSNPeers) { p.Spec.Nodes = append(p.Spec.Nodes, good) }, "Duplicate value"},
		"of no network":     {func(p *v1alpha1.TSNPeers) { p.Spec.Network = "" }, "spec.network"},
		"an address of IPv6": {func(p *v1alpha1.TSNPeers) { p.Spec.Nodes[0].Address = "fd00::1" },
			"address must be an IPv4 address, such as 192.0.2.1"},
		"no range":       {func(p *v1alpha1.TSNPeers) { p.Spec.Nodes[0].IPv4 = "10.42.1.0" }, "ipv4 must be a range of IPv4"},
		"one of IPv4":    {func(p *v1alpha1.TSNPeers) { p.Spec.Nodes[0].IPv6 = "10.42.1.0/24" }, "ipv6 must be a range of IPv6"},
		"without a name": {func(p *v1alpha1.TSNPeers) { p.Spec.Nodes[0].Name = "" }, "name"},
	} {
		t.Run(name, func(t *testing.T) {
			peers := newPeers("judged-0", "judged", good)
			peers.Spec.Cluster = "plant-1" // those of this cluster the operator alone writes
			test.change(peers)
			checkRefusal(t, "", admin.Create(ctx, peers, client.DryRunAll), test.sentence)
		})
	}
	kept := newPeers("kept-0", "kept", good)
	kept.Spec.Cluster = "plant-1"
	create(ctx, t, kept)
	kept.Spec.Network = "another"
	checkRefusal(t, "", admin.Update(ctx, kept, client.DryRunAll), "spec.network of TSNPeers cannot be changed")
}

// manyPeers returns different nodes.
func manyPeers(count int) []v1alpha1.PeerNode {
	var nodes []v1alpha1.PeerNode
	for i := range count {
		nodes = append(nodes, v1alpha1.PeerNode{Name: fmt.Sprintf("node-%03d", i), Address: fmt.Sprintf("192.0.2.%d", i), IPv4: fmt.Sprintf("10.42.%d.0/24", i)})
	}
	return nodes
}
