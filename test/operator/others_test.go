// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// Users other than the operator have all rights here: what is refused, a policy refuses.

const (
	operatorPeers = "TSNPeers without spec.cluster are the nodes of this cluster, and only ktsn-operator may write them"
	operatorSpecs = "only ktsn-operator may write spec of a TSNNode"
	nodeAddresses = "give the addresses of the node, so a node may not change them itself"
)

// TestOnlyOperatorWritesPeersAndSpecs is what a hub's agent, with all rights for kubernetsn.io, cannot do.
func TestOnlyOperatorWritesPeersAndSpecs(t *testing.T) {
	ctx := needPolicy(t)
	forged := newPeers("forged-0", "forged", v1alpha1.PeerNode{Name: "zz", Address: "192.0.2.9", IPv4: "10.42.1.0/25"})
	foreign := forged.DeepCopy()
	foreign.Name, foreign.Spec.Cluster = "forged.plant-0", "plant"
	create(ctx, t, foreign)
	create(ctx, t, newNode("specs-node"), newNetwork("specs", 198, "10.198.0.0/16"), onNetwork("specs-one", "default", "specs", "specs-node"))
	state := stateOf("specs-node")
	eventually(ctx, t, func() error { return get(ctx, state) })
	peers := newPeers("specs-0", "specs")
	eventually(ctx, t, func() error { return get(ctx, peers) })
	forgedState := stateOf("forged-other")
	forgedState.Spec.Networks = []v1alpha1.NodeNetwork{{Name: "forged", IPv4: "10.42.2.0/24"}}
	patch := func(object client.Object, text string) error {
		return admin.Patch(ctx, object.DeepCopyObject().(client.Object), mergePatch(text), client.DryRunAll)
	}
	for name, test := range map[string]struct {
		err      error
		sentence string
	}{
		"a node of the cluster":               {admin.Create(ctx, forged, client.DryRunAll), operatorPeers},
		"one of another made the cluster's":   {patch(foreign, `{"spec":{"cluster":""}}`), operatorPeers},
		"one of another without a cluster":    {patch(foreign, `{"spec":{"cluster":null}}`), operatorPeers},
		"one of another, elsewhere":           {patch(foreign, `{"spec":{"nodes":[]}}`), ""},
		"one of the cluster, elsewhere":       {patch(peers, `{"spec":{"nodes":[]}}`), operatorPeers},
		"one of the cluster made another's":   {patch(peers, `{"spec":{"cluster":"plant"}}`), operatorPeers},
		"one of the cluster without a label":  {patch(peers, `{"metadata":{"labels":null}}`), operatorPeers},
		"one of the cluster, another network": {patch(peers, `{"metadata":{"labels":{"kubernetsn.io/tsnnetwork":"x"}}}`), operatorPeers},
		"one of the cluster, not managed":     {patch(peers, `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`), operatorPeers},
		"its annotations":                     {patch(peers, `{"metadata":{"annotations":{"a":"b"}}}`), ""},
		"what a node shall do":                {patch(state, `{"spec":{"networks":[{"name":"forged","ipv4":"10.42.2.0/24"}]}}`), operatorSpecs},
		"whose schedule it executes":          {patch(state, `{"spec":{"gates":"forged"}}`), operatorSpecs},
		"the labels of a TSNNode":             {patch(state, `{"metadata":{"labels":{"a":"b"}}}`), ""},
		"another TSNNode":                     {admin.Create(ctx, forgedState, client.DryRunAll), operatorSpecs},
	} {
		checkRefusal(t, name, test.err, test.sentence)
	}
}

func TestNodesCannotChangeTunnelAddresses(t *testing.T) {
	ctx := needPolicy(t)
	node := newNode("address-node")
	node.Annotations = map[string]string{v1alpha1.TunnelAddressAnnotation: "192.0.2.1"}
	create(ctx, t, node)
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:node:address-node", Groups: []string{"system:nodes", "system:masters"}}
	kubelet, err := client.New(as, client.Options{Scheme: scheme})
	must(t, err)
	registered := newNode("address-other")
	registered.Annotations = node.Annotations
	checkRefusal(t, "a node registers itself", kubelet.Create(ctx, registered, client.DryRunAll), nodeAddresses)
	registered.Annotations = nil
	checkRefusal(t, "a node registers itself without an address", kubelet.Create(ctx, registered, client.DryRunAll), "")
	for annotations, sentence := range map[string]string{
		`{"kubernetsn.io/tunnel-address":"192.0.2.2"}`:                                   nodeAddresses,
		`{"kubernetsn.io/tunnel-address":null}`:                                          nodeAddresses,
		`{"range.kubernetsn.io/tsn":"10.42.1.0/24"}`:                                     nodeAddresses,
		`{"kubernetsn.io/tunnel-address":"192.0.2.1","volumes.kubernetes.io/csi":"yes"}`: "",
	} {
		patch := mergePatch(`{"metadata":{"annotations":` + annotations + `}}`)
		for path, err := range map[string]error{
			"its object": kubelet.Patch(ctx, node.DeepCopy(), patch, client.DryRunAll),
			"its status": kubelet.Status().Patch(ctx, node.DeepCopy(), patch, client.DryRunAll),
		} {
			checkRefusal(t, fmt.Sprintf("a node changes %s by %s", annotations, path), err, sentence)
		}
		checkRefusal(t, "an administrator changes "+annotations, admin.Patch(ctx, node.DeepCopy(), patch, client.DryRunAll), "")
	}
}

// TestServiceRanges is what who may make TSNServices in a namespace cannot do.
func TestServiceRanges(t *testing.T) {
	ctx := needPolicy(t)
	const (
		noRange = "is in none of the ranges that links may have here (value links.allowedRanges"
		noRoute = "is in none of the ranges to which links may have routes here (value links.allowedRoutes"

		reserved = "has addresses that are reserved here (value links.reservedRanges"
	)
	service := newService("ranged", "10.197.0.0/24")
	service.Namespace = "default"
	service.Spec.Routes = []v1alpha1.ServiceRoute{{To: "10.9.0.0/16"}}
	create(ctx, t, service)
	for name, test := range map[string]struct {
		change   func(*v1alpha1.TSNServiceSpec)
		sentence string
	}{
		"a private range":           {func(*v1alpha1.TSNServiceSpec) {}, ""},
		"all of a private range":    {func(s *v1alpha1.TSNServiceSpec) { s.IPv4.LinkCIDR = "192.168.0.0/16" }, ""},
		"unique local addresses":    {func(s *v1alpha1.TSNServiceSpec) { s.IPv6 = &v1alpha1.LinkRange{LinkCIDR: "fd00:200::/64"} }, ""},
		"half of all addresses":     {func(s *v1alpha1.TSNServiceSpec) { s.IPv4.LinkCIDR = "128.0.0.0/1" }, "linkCIDR 128.0.0.0/1 " + noRange},
		"all addresses":             {func(s *v1alpha1.TSNServiceSpec) { s.IPv4.LinkCIDR = "0.0.0.0/0" }, "linkCIDR 0.0.0.0/0 " + noRange},
		"more than a private range": {func(s *v1alpha1.TSNServiceSpec) { s.IPv4.LinkCIDR = "10.0.0.0/7" }, noRange},
		"others' addresses of IPv6": {func(s *v1alpha1.TSNServiceSpec) { s.IPv6 = &v1alpha1.LinkRange{LinkCIDR: "2001:db8::/64"} }, noRange},
		"a route to half of all": {func(s *v1alpha1.TSNServiceSpec) {
			s.Routes = []v1alpha1.ServiceRoute{{To: "10.9.0.0/16"}, {To: "0.0.0.0/1"}}
		}, "route 0.0.0.0/1 " + noRoute},
		"a route to an address": {func(s *v1alpha1.TSNServiceSpec) { s.Routes[0].To = "8.8.8.8/32" }, "route 8.8.8.8/32 " + noRoute},
		"a private route":       {func(s *v1alpha1.TSNServiceSpec) { s.Routes[0].To = "192.168.7.0/24" }, ""},
		"a reserved range":      {func(s *v1alpha1.TSNServiceSpec) { s.IPv4.LinkCIDR = "10.194.7.0/24" }, "10.194.7.0/24 " + reserved},
		"more than one":         {func(s *v1alpha1.TSNServiceSpec) { s.IPv4.LinkCIDR = "10.128.0.0/9" }, "10.128.0.0/9 " + reserved},
		"a reserved route":      {func(s *v1alpha1.TSNServiceSpec) { s.Routes[0].To = "10.194.0.10/32" }, "10.194.0.10/32 " + reserved},
		"what is no range":      {func(s *v1alpha1.TSNServiceSpec) { s.Routes[0].To = "x" }, "to must be a range"},
	} {
		t.Run(name, func(t *testing.T) {
			created := newService("ranged-new", "10.197.1.0/24")
			created.Namespace, created.Spec.Routes = "default", []v1alpha1.ServiceRoute{{To: "10.9.0.0/16"}}
			test.change(&created.Spec)
			checkRefusal(t, "", admin.Create(ctx, created, client.DryRunAll), test.sentence)
		})
	}
	for routes, sentence := range map[string]string{
		`[{"to":"10.9.0.0/16"},{"to":"128.0.0.0/1"}]`: "route 128.0.0.0/1 " + noRoute,
		`[{"to":"10.10.0.0/16"}]`:                     "",
		`[]`:                                          "",
	} {
		patch := mergePatch(`{"spec":{"routes":` + routes + `}}`)
		checkRefusal(t, "routes "+routes, admin.Patch(ctx, service.DeepCopy(), patch, client.DryRunAll), sentence)
	}
}

// TestReservedRanges is about ranges that the operator knows from the cluster's own objects.
func TestReservedRanges(t *testing.T) {
	ctx := needOperator(t)
	node := newNode("reserved-node")
	node.Spec.PodCIDR, node.Spec.PodCIDRs = "10.196.3.0/24", []string{"10.196.3.0/24"}
	create(ctx, t, node)
	pods, routed := newService("pods", "10.196.0.0/16"), newService("routed", "10.195.0.0/24")
	routed.Spec.Routes = []v1alpha1.ServiceRoute{{To: "10.196.3.7/32"}}
	lab := newLinkLab(ctx, t, "links-reserved", pods, routed)
	for service, sentence := range map[*v1alpha1.TSNService]string{
		pods:   "pods of node reserved-node has addresses of the same range, 10.196.3.0/24; create another TSNService with another range",
		routed: "route 10.196.3.7/32 is not set in pods: pods of node reserved-node has addresses of it, 10.196.3.0/24",
	} {
		lab.service(t, service, hasReason(v1alpha1.ReasonOverlaps), sentence)
	}
}

// TestNodeClaimsServiceAddress has a node report an address of a service that the operator has accepted.
func TestNodeClaimsServiceAddress(t *testing.T) {
	ctx := needOperator(t)
	kept := newService("kept", "10.198.0.0/24")
	kept.Spec.Routes = []v1alpha1.ServiceRoute{{To: "10.198.7.0/24"}}
	lab := newLinkLab(ctx, t, "links-kept", kept)
	accepted := func(status *v1alpha1.TSNServiceStatus, ready *metav1.Condition) bool {
		return len(status.Accepted) == 2 && ready.Reason != v1alpha1.ReasonOverlaps
	}
	lab.service(t, kept, accepted)
	for name, address := range map[string]string{"claims-range": "10.198.0.1", "claims-route": "10.198.7.1"} {
		node := newNode(name)
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
		create(ctx, t, node)
		awaitEvent(ctx, t, "default", name, v1alpha1.ReasonOverlaps)
	}
	time.Sleep(time.Second) // a status that changes is written within that
	lab.service(t, kept, accepted)
}
