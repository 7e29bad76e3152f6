// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// Users other than the operator have all rights here: what is refused, a policy refuses.

const (
	operatorPeers = "TSNPeers without spec.cluster are the nodes of this cluster, which ktsn-operator alone writes"
	operatorSpecs = "spec of a TSNNode is what its node shall do, which ktsn-operator alone writes"
	nodeAddresses = "say which addresses are the node's, so a node may not change them itself"
)

// TestNobodyElseWritesNodesOfTheCluster is what a hub's agent, with all rights for kubernetsn.io, cannot do.
func TestNobodyElseWritesNodesOfTheCluster(t *testing.T) {
	ctx := needPolicy(t)
	operator := theOperator(t)
	forged := newPeers("forged-0", "forged", v1alpha1.PeerNode{Name: "zz", Address: "192.0.2.9", IPv4: "10.42.1.0/25"})
	foreign := forged.DeepCopy()
	foreign.Name, foreign.Spec.Cluster = "forged.plant-0", "plant"
	own := newPeers("forged-1", "forged", v1alpha1.PeerNode{Name: "a", Address: "192.0.2.1", IPv4: "10.42.2.0/24"})
	create(ctx, t, foreign)
	if err := operator.Create(ctx, own); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(context.WithoutCancel(ctx), t, own) })
	create(ctx, t, newNode("specs-node"), newNetwork("specs", 198, "10.198.0.0/16"), onNetwork("specs-one", "default", "specs", "specs-node"))
	state := stateOf("specs-node")
	eventually(ctx, t, func() error { return get(ctx, state) })
	told := stateOf("forged-other")
	told.Spec.Networks = []v1alpha1.NodeNetwork{{Name: "forged", IPv4: "10.42.2.0/24"}}
	patch := func(object client.Object, text string) error {
		return admin.Patch(ctx, object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
	}
	for name, test := range map[string]struct {
		err      error
		sentence string
	}{
		"a node of the cluster":               {admin.Create(ctx, forged, client.DryRunAll), operatorPeers},
		"one of another made the cluster's":   {patch(foreign, `{"spec":{"cluster":""}}`), operatorPeers},
		"one of another without a cluster":    {patch(foreign, `{"spec":{"cluster":null}}`), operatorPeers},
		"one of another, elsewhere":           {patch(foreign, `{"spec":{"nodes":[]}}`), ""},
		"one of the cluster, elsewhere":       {patch(own, `{"spec":{"nodes":[]}}`), operatorPeers},
		"one of the cluster made another's":   {patch(own, `{"spec":{"cluster":"plant"}}`), operatorPeers},
		"one of the cluster without a label":  {patch(own, `{"metadata":{"labels":null}}`), operatorPeers},
		"one of the cluster, another network": {patch(own, `{"metadata":{"labels":{"kubernetsn.io/tsnnetwork":"x"}}}`), operatorPeers},
		"its annotations":                     {patch(own, `{"metadata":{"annotations":{"a":"b"}}}`), ""},
		"what a node shall do":                {patch(state, `{"spec":{"networks":[{"name":"forged","ipv4":"10.42.2.0/24"}]}}`), operatorSpecs},
		"whose schedule it executes":          {patch(state, `{"spec":{"gates":"forged"}}`), operatorSpecs},
		"the labels of a TSNNode":             {patch(state, `{"metadata":{"labels":{"a":"b"}}}`), ""},
		"another TSNNode":                     {admin.Create(ctx, told, client.DryRunAll), operatorSpecs},
	} {
		if err := says(test.err, test.sentence); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNodesDoNotGiveThemselvesAddresses(t *testing.T) {
	ctx := needPolicy(t)
	node := newNode("address-node")
	node.Annotations = map[string]string{v1alpha1.TunnelAddressAnnotation: "192.0.2.1"}
	create(ctx, t, node)
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:node:address-node", Groups: []string{"system:nodes", "system:masters"}}
	kubelet, err := client.New(as, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	registered := newNode("address-other")
	registered.Annotations = node.Annotations
	if err := says(kubelet.Create(ctx, registered, client.DryRunAll), nodeAddresses); err != nil {
		t.Errorf("a node registers itself: %v", err)
	}
	registered.Annotations = nil
	if err := says(kubelet.Create(ctx, registered, client.DryRunAll), ""); err != nil {
		t.Errorf("a node registers itself without an address: %v", err)
	}
	for annotations, sentence := range map[string]string{
		`{"kubernetsn.io/tunnel-address":"192.0.2.2"}`:                                   nodeAddresses,
		`{"kubernetsn.io/tunnel-address":null}`:                                          nodeAddresses,
		`{"range.kubernetsn.io/tsn":"10.42.1.0/24"}`:                                     nodeAddresses,
		`{"kubernetsn.io/tunnel-address":"192.0.2.1","volumes.kubernetes.io/csi":"yes"}`: "",
	} {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":`+annotations+`}}`))
		for path, err := range map[string]error{
			"its object": kubelet.Patch(ctx, node.DeepCopy(), patch, client.DryRunAll),
			"its status": kubelet.Status().Patch(ctx, node.DeepCopy(), patch, client.DryRunAll),
		} {
			if err := says(err, sentence); err != nil {
				t.Errorf("a node changes %s by %s: %v", annotations, path, err)
			}
		}
		if err := says(admin.Patch(ctx, node.DeepCopy(), patch, client.DryRunAll), ""); err != nil {
			t.Errorf("an administrator changes %s: %v", annotations, err)
		}
	}
}
