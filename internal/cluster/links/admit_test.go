// SPDX-License-Identifier: Apache-2.0

package links

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// admittedWorld is a cluster with a client, an element of a chain, and links of a hub's: from the client to the element, and from that to an
// endpoint elsewhere.
func admittedWorld() (w *world, first, second *v1alpha1.TSNLink) {
	w = newWorld(1)
	w.Services = []v1alpha1.TSNService{newService("plant", "10.200.0.0/24")}
	w.Services[0].Spec.Chain = []v1alpha1.ChainElement{element("filter")}
	w.Services[0].Spec.Routes = []v1alpha1.ServiceRoute{{To: "10.9.0.0/16"}}
	client := *w.client("node0", "plant")
	middle := *w.middle("node0", "plant", "filter")
	end := func(pod *Pod, name, address string) v1alpha1.LinkEnd {
		return v1alpha1.LinkEnd{Namespace: "ns", Pod: pod.Name, UID: pod.UID, Node: pod.Node, NodeAddress: "192.0.2.1", Interface: name, Addresses: []string{address}}
	}
	link := func(name string, hop, vni int32, from, to v1alpha1.LinkEnd) v1alpha1.TSNLink {
		return v1alpha1.TSNLink{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{v1alpha1.LinkMakerLabel: v1alpha1.MakerFederator}},
			Spec: v1alpha1.TSNLinkSpec{Service: "plant", Hop: hop, VNI: vni, Client: from, Endpoint: to}}
	}
	w.Links = []v1alpha1.TSNLink{
		link("first-hub", 0, v1alpha1.LastLinkVNI, end(&client, "up", "10.200.0.0/31"), end(&middle, "from5000", "10.200.0.1/31")),
		link("second-hub", 1, v1alpha1.LastLinkVNI-1, end(&middle, "on", "10.200.0.2/31"), end(&Pod{Name: "far", UID: "far"}, "down5000", "10.200.0.3/31")),
	}
	first, second = &w.Links[0], &w.Links[1]
	first.Spec.Client.Names = []string{"filter.plant.ns.tsn.internal"}
	first.Spec.Client.Routes = []string{"10.9.0.0/16", "10.200.0.3/32"}
	first.Spec.Client.Hosts = []v1alpha1.LinkHost{{Name: "plant", Addresses: []string{"10.200.0.3"}}, {Name: "plant.ns.tsn.internal", Addresses: []string{"10.200.0.3"}}}
	first.Spec.Endpoint.Forward, second.Spec.Client.Forward = []string{"IPv4"}, []string{"IPv4"}
	first.Spec.Endpoint.Names = []string{"pod1.plant.ns.tsn.internal"}
	return w, first, second
}

func TestAdmitHubLinks(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *world, first, second *v1alpha1.TSNLink)
		// refusals of the first and the second link; "" of one that is admitted.
		first, second string
	}{
		"as it was asked for": {func(*world, *v1alpha1.TSNLink, *v1alpha1.TSNLink) {}, "", ""},
		"of a service that is not there": {func(_ *world, first, _ *v1alpha1.TSNLink) { first.Spec.Service = "other" },
			"there is no TSNService ns/other in this cluster", ""},
		"of a pod without the label": {func(w *world, _, _ *v1alpha1.TSNLink) { w.Pods[0].Labels = nil },
			"the client, pod ns/pod1: its labels do not ask TSNService ns/plant for interface up", ""},
		"for another interface": {func(_ *world, first, _ *v1alpha1.TSNLink) { first.Spec.Client.Interface = "eth0" },
			"its labels do not ask TSNService ns/plant for interface eth0", ""},
		"for another interface of an element": {func(_ *world, first, _ *v1alpha1.TSNLink) { first.Spec.Endpoint.Interface = "eth0" },
			"the endpoint, pod ns/pod2: its labels do not ask", ""},
		"from a namespace that may not": {func(w *world, _, _ *v1alpha1.TSNLink) { w.Pods[0].Namespace = "else" }, "its labels do not ask", ""},
		"past the chain":                {func(_ *world, _, second *v1alpha1.TSNLink) { second.Spec.Hop = 2 }, "", "its labels do not ask"},
		"of another range": {func(_ *world, first, _ *v1alpha1.TSNLink) { first.Spec.Client.Addresses = []string{"10.1.0.0/31"} },
			"address 10.1.0.0/31 is in no range of TSNService ns/plant", ""},
		"with the range itself": {func(_ *world, _, second *v1alpha1.TSNLink) {
			second.Spec.Endpoint.Addresses = []string{"10.200.0.0/16"}
		},
			"", "the endpoint, pod ns/far: address 10.200.0.0/16 is in no range"},
		"with a route to all": {func(_ *world, first, _ *v1alpha1.TSNLink) { first.Spec.Client.Routes = []string{"0.0.0.0/1"} },
			"route 0.0.0.0/1 is neither in a range of TSNService ns/plant nor in its spec.routes", ""},
		"with a name of another's": {func(_ *world, first, _ *v1alpha1.TSNLink) { first.Spec.Client.Names = []string{"api.bank.example"} },
			"name api.bank.example is neither plant nor one under plant.ns.tsn.internal", ""},
		"with a host of another's name": {func(_ *world, first, _ *v1alpha1.TSNLink) { first.Spec.Client.Hosts[0].Name = "kubernetes.default.svc" },
			"name kubernetes.default.svc is neither", ""},
		"with a host elsewhere": {func(_ *world, first, _ *v1alpha1.TSNLink) {
			first.Spec.Client.Hosts[0].Addresses = []string{"192.0.2.1"}
		},
			"192.0.2.1, the address of plant, is in no range", ""},
		"that has a client forward": {func(_ *world, first, _ *v1alpha1.TSNLink) { first.Spec.Client.Forward = []string{"IPv4"} },
			"forwarding of IPv4 is not in the pod's element of spec.chain", ""},
		"with the number of another": {func(_ *world, first, second *v1alpha1.TSNLink) { second.Spec.VNI = first.Spec.VNI },
			"", "TSNLink ns/first-hub has its VXLAN network identifier, 16777215"},
		"in clear, of a service that requires encryption": {func(w *world, first, second *v1alpha1.TSNLink) {
			w.Services[0].Spec.Encryption = v1alpha1.EncryptionRequired
			first.Spec.Encryption, second.Spec.Encryption = v1alpha1.EncryptionNone, v1alpha1.EncryptionPreferred
		}, "its encryption is None, and links of TSNService ns/plant have Required here", "its encryption is Preferred, and links of TSNService ns/plant have Required here"},
		"in clear, of a service that prefers encryption": {func(w *world, _, second *v1alpha1.TSNLink) {
			w.Services[0].Spec.Encryption, second.Spec.Encryption = v1alpha1.EncryptionPreferred, v1alpha1.EncryptionRequired
		}, "its encryption is None, and links of TSNService ns/plant have Preferred here", ""},
		"with an address of another": {func(_ *world, first, second *v1alpha1.TSNLink) {
			second.Spec.Endpoint.Addresses = first.Spec.Client.Addresses
		}, "", "TSNLink ns/first-hub has its address 10.200.0.0"},
		"with an address of one of the operator's that is younger": {func(w *world, _, second *v1alpha1.TSNLink) {
			link := *second.DeepCopy()
			link.Name, link.Labels, link.Spec.VNI = "own", map[string]string{v1alpha1.LinkMakerLabel: v1alpha1.MakerOperator}, v1alpha1.FirstLinkVNI
			link.CreationTimestamp = metav1.Time{Time: start}
			w.Links = append(slices.Clone(w.Links), link)
		}, "", "TSNLink ns/own has its address 10.200.0.2"},
		"with an address of the cluster's own part": {func(w *world, _, _ *v1alpha1.TSNLink) { w.Services[0].Spec.IPv4.Part = "10.200.0.2/31" },
			"", "address 10.200.0.2/31 is in this cluster's part of TSNService ns/plant"},
		"with an address of the cluster's own": {func(w *world, _, _ *v1alpha1.TSNLink) {
			w.Reserved = []Reserved{{Range: netip.MustParsePrefix("10.200.0.0/31"), What: "the cluster DNS"}}
		}, "the cluster DNS has address 10.200.0.0", ""},
		"with an address of a network": {func(w *world, _, _ *v1alpha1.TSNLink) {
			w.Networks = append(w.Networks, v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "line"}, Spec: v1alpha1.TSNNetworkSpec{IPv4: v1alpha1.Range4{CIDR: "10.200.0.2/31"}}})
		}, "", "TSNNetwork line has address 10.200.0.2"},
		"that was admitted before the network was made": {func(w *world, _, second *v1alpha1.TSNLink) {
			w.Networks = append(w.Networks, v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "line"}, Spec: v1alpha1.TSNNetworkSpec{IPv4: v1alpha1.Range4{CIDR: "10.200.0.2/31"}}})
			second.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue}}
		}, "", ""},
		"with addresses of another's part": {func(w *world, _, _ *v1alpha1.TSNLink) { w.Services[0].Spec.IPv4.Part = "10.200.0.128/25" }, "", ""},
		"of pods of other clusters":        {func(w *world, _, _ *v1alpha1.TSNLink) { w.Pods = nil }, "none", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			w, first, second := admittedWorld()
			test.change(w, first, second)
			reported := map[string]string{"first-hub": "none", "second-hub": "none"}
			for _, admission := range Plan(&w.Input).Admitted {
				reported[admission.Link.Name] = ""
				if admission.Refusal != nil {
					reported[admission.Link.Name] = admission.Refusal.Error()
				}
			}
			for link, want := range map[string]string{"first-hub": test.first, "second-hub": test.second} {
				if got := reported[link]; (got == "") != (want == "") || !strings.Contains(got, want) {
					t.Errorf("of %s it says %q, want %q", link, got, want)
				}
			}
		})
	}
}

func TestHubPlansNoAdmissions(t *testing.T) {
	w, _, _ := admittedWorld()
	w.Maker = v1alpha1.MakerFederator
	if all := Plan(&w.Input).Admitted; len(all) > 0 {
		t.Errorf("got %v", all)
	}
}

// deleted are the names of links that a plan removes.
func deleted(plan *Result) (names []string) {
	for _, removal := range plan.Delete {
		names = append(names, removal.Link.Name)
	}
	return names
}

func TestAbandonedLinkIsDeletedWithPods(t *testing.T) {
	looksAfter := func(link *v1alpha1.TSNLink) { link.Labels[karmadaLabel] = "true" }
	for name, test := range map[string]struct {
		change func(w *world, first, second *v1alpha1.TSNLink)
		want   []string
	}{
		"both pods are there":            {func(*world, *v1alpha1.TSNLink, *v1alpha1.TSNLink) {}, nil},
		"no pod is there":                {func(w *world, _, _ *v1alpha1.TSNLink) { w.Pods = nil }, []string{"first-hub", "second-hub"}},
		"one end's pod is there":         {func(w *world, _, _ *v1alpha1.TSNLink) { w.Pods = w.Pods[1:] }, nil},
		"the hub looks after one":        {func(w *world, first, _ *v1alpha1.TSNLink) { w.Pods = nil; looksAfter(first) }, []string{"second-hub"}},
		"somebody else made one by hand": {func(w *world, first, _ *v1alpha1.TSNLink) { w.Pods, first.Labels = nil, map[string]string{} }, []string{"second-hub"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, first, second := admittedWorld()
			test.change(w, first, second)
			if got := deleted(Plan(&w.Input)); !slices.Equal(got, test.want) {
				t.Errorf("%q go, want %q", got, test.want)
			}
		})
	}
}

func TestManagedLinkTakesPrecedence(t *testing.T) {
	w, first, second := admittedWorld()
	second.Spec.VNI = first.Spec.VNI
	second.Labels[karmadaLabel] = "true"
	second.CreationTimestamp = metav1.Time{Time: start.Add(time.Minute)}
	reported := map[string]bool{}
	for _, admission := range Plan(&w.Input).Admitted {
		reported[admission.Link.Name] = admission.Refusal == nil
	}
	if reported["first-hub"] || !reported["second-hub"] {
		t.Errorf("admitted are %v", reported)
	}
}
