// SPDX-License-Identifier: Apache-2.0

package links

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

func TestPlanLink(t *testing.T) {
	w := newWorld(2)
	service := newService("camera", "10.200.0.0/16")
	service.Spec.IPv6 = &v1alpha1.LinkRange{LinkCIDR: "fd00:200::/64", Part: "fd00:200::1:0/112"}
	service.Spec.Routes = []v1alpha1.ServiceRoute{{To: "10.9.0.0/16"}, {To: "10.8.0.0/16", Behind: v1alpha1.BehindClient}}
	w.Services = append(w.Services, service)
	client, endpoint := *w.client("node0", "camera"), *w.endpoint("node1", "camera")
	plan := w.settle(t)
	link := w.linkOf(&client, 0)
	if link == nil {
		t.Fatalf("there is none: %+v", plan.Pods)
	}
	want := v1alpha1.TSNLinkSpec{
		Service: "camera", VNI: 0x800000,
		Client: v1alpha1.LinkEnd{Namespace: "ns", Pod: client.Name, UID: client.UID, Node: "node0", NodeAddress: "192.0.2.1", Interface: "up",
			Addresses: []string{"10.200.0.0/31", "fd00:200::1:2/127"}, Routes: []string{"10.9.0.0/16"}, Names: []string{"camera", "camera.ns.tsn.internal"}},
		Endpoint: v1alpha1.LinkEnd{Namespace: "ns", Pod: endpoint.Name, UID: endpoint.UID, Node: "node1", NodeAddress: "192.0.2.2", Interface: "down0",
			Addresses: []string{"10.200.0.1/31", "fd00:200::1:3/127"}, Routes: []string{"10.8.0.0/16"}, Names: []string{client.Name + ".ns.camera.ns.tsn.internal"}},
	}
	if !reflect.DeepEqual(link.Spec, want) {
		t.Errorf("got  %+v\nwant %+v", link.Spec, want)
	}
	status := plan.Services[Key{Namespace: "ns", Name: "camera"}].Status
	if status.Endpoints != 1 || status.Clients != 1 || status.Linked != 1 || len(status.Offers) != 1 || status.Offers[0].Links != 1 || len(status.Wants) != 0 {
		t.Errorf("the status is %+v", status)
	}
}

func TestPreference(t *testing.T) {
	for prefer, want := range map[string]string{
		"":                         "node0", // as the API server's default
		v1alpha1.PreferSameNode:    "node0",
		v1alpha1.PreferSameCluster: "node1", // which has fewer links
		v1alpha1.PreferAny:         "node1",
	} {
		t.Run("by "+prefer, func(t *testing.T) {
			w := newWorld(2)
			service := newService("s", "10.200.0.0/16")
			service.Spec.Prefer = prefer
			w.Services = append(w.Services, service)
			w.endpoint("node0", "s")
			w.client("node0", "s")
			w.settle(t)
			w.endpoint("node1", "s")
			client := *w.client("node0", "s")
			w.settle(t)
			if got := w.linkOf(&client, 0).Spec.Endpoint.Node; got != want {
				t.Errorf("the link leads to %s, want %s", got, want)
			}
		})
	}
}

func TestLimit(t *testing.T) {
	w := newWorld(1)
	service := newService("s", "10.200.0.0/16")
	service.Spec.Limits = &v1alpha1.LinkLimits{LinksPerEndpoint: 2}
	w.Services = append(w.Services, service)
	w.endpoint("node0", "s")
	for range 3 {
		w.client("node0", "s")
	}
	plan := w.settle(t)
	servicePlan := plan.Services[Key{Namespace: "ns", Name: "s"}]
	if len(w.Links) != 2 || len(servicePlan.Status.Wants) != 1 || len(servicePlan.Findings) != 1 || servicePlan.Findings[0].Reason != v1alpha1.ReasonLimitReached ||
		!strings.Contains(servicePlan.Findings[0].Text, "has 2 links already (spec.limits.linksPerEndpoint)") {
		t.Errorf("%d links, %+v", len(w.Links), servicePlan)
	}
}

func TestReplaceEndpoint(t *testing.T) {
	for name, fail := range map[string]func(w *world, uid string){
		"gone":               func(w *world, uid string) { w.removePod(uid) },
		"not ready":          func(w *world, uid string) { w.pod(uid).Ready = false },
		"being deleted":      func(w *world, uid string) { w.pod(uid).Deleting = true },
		"on a lost node":     func(w *world, _ string) { w.Nodes["node1"] = Node{Address: w.Nodes["node1"].Address} },
		"without its label":  func(w *world, uid string) { w.pod(uid).Labels = nil },
		"down for some time": func(w *world, _ string) { w.setUp(&w.Links[0], false); w.Now = w.Now.Add(LinkTimeout) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(3)
			w.Services = append(w.Services, newService("s", "10.200.0.0/16"))
			first, client := *w.endpoint("node1", "s"), *w.client("node0", "s")
			w.settle(t)
			before := *w.linkOf(&client, 0)
			fail(w, first.UID)
			if name == "without its label" {
				if w.settle(t); len(w.Links) != 0 {
					t.Errorf("the link stays: %+v", w.Links[0].Spec)
				}
			} else if plan := w.round(); len(plan.Delete) != 0 || w.linkOf(&client, 0).Spec.VNI != before.Spec.VNI {
				t.Fatalf("the link did not stay, though there is no other endpoint: %+v", plan.Delete)
			}
			second := *w.endpoint("node2", "s")
			plan := w.settle(t)
			link := w.linkOf(&client, 0)
			if link == nil || link.Spec.Endpoint.UID != second.UID {
				t.Fatalf("the link is %+v, %+v", link, plan.Pods)
			}
			if link.Name != before.Name || link.Spec.Client.Interface != before.Spec.Client.Interface {
				t.Errorf("the client sees another one: %s, %s", link.Name, link.Spec.Client.Interface)
			}
			if link.Spec.VNI == before.Spec.VNI || link.Spec.Client.Addresses[0] == before.Spec.Client.Addresses[0] {
				t.Error("number or addresses are used again at once")
			}
		})
	}
}

func TestLinkTimeout(t *testing.T) {
	w := newWorld(2)
	w.Services = append(w.Services, newService("s", "10.200.0.0/16"))
	w.endpoint("node0", "s")
	w.endpoint("node1", "s")
	client := *w.client("node0", "s")
	w.settle(t)
	link := w.linkOf(&client, 0)
	was := link.Spec.Endpoint.UID
	w.setUp(link, false)
	w.Now = w.Now.Add(LinkTimeout - time.Second)
	if plan := w.round(); len(plan.Delete) != 0 || plan.RequeueAfter != time.Second {
		t.Fatalf("it was replaced, or is looked at again after %v", plan.RequeueAfter)
	}
	w.linkOf(&client, 0).Status.Conditions[0].Status = metav1.ConditionFalse // the client's own node has not plugged it
	w.Now = w.Now.Add(time.Hour)
	if plan := w.round(); len(plan.Delete) != 0 {
		t.Fatal("it was replaced for what its client's node has not done")
	}
	w.setUp(w.linkOf(&client, 0), false)
	w.Now = w.Now.Add(LinkTimeout)
	w.settle(t)
	if w.linkOf(&client, 0).Spec.Endpoint.UID == was {
		t.Fatal("it was not replaced")
	}
	w.setUp(w.linkOf(&client, 0), false)
	w.Now = w.Now.Add(LinkTimeout)
	w.settle(t)
	if w.linkOf(&client, 0).Spec.Endpoint.UID == was {
		t.Error("a link goes to and fro between two endpoints that are not reached")
	}
}

func TestRemovedLabel(t *testing.T) {
	w := newWorld(1)
	w.Services = append(w.Services, newService("s", "10.200.0.0/16"))
	w.endpoint("node0", "s")
	client := *w.client("node0", "s")
	w.settle(t)
	w.pod(client.UID).Labels = nil
	plan := w.round()
	if len(w.Links) != 0 || len(plan.Delete) != 1 || !strings.Contains(plan.Delete[0].Why, "is no client of TSNService ns/s any more") {
		t.Errorf("%d links, %+v", len(w.Links), plan.Delete)
	}
}

// chained is a service with a chain of two, one pod for each element, an endpoint, and two clients.
func chained(t *testing.T) (w *world, a, b, endpoint Pod, clients []Pod) {
	t.Helper()
	w = newWorld(2)
	service := newService("s", "10.200.0.0/16")
	service.Spec.Chain = []v1alpha1.ChainElement{element("a"), element("b")}
	w.Services = append(w.Services, service)
	a, b, endpoint = *w.middle("node0", "s", "a"), *w.middle("node1", "s", "b"), *w.endpoint("node0", "s")
	clients = []Pod{*w.client("node0", "s"), *w.client("node1", "s")}
	return w, a, b, endpoint, clients
}

func TestChain(t *testing.T) {
	w, a, b, endpoint, clients := chained(t)
	var order [][]int32
	for range 4 {
		plan := w.round()
		var hops []int32
		for _, link := range plan.Make {
			hops = append(hops, link.Spec.Hop)
		}
		order = append(order, hops)
	}
	if want := [][]int32{{2}, {1}, {0, 0}, nil}; !reflect.DeepEqual(order, want) {
		t.Fatalf("the hops of the links made were %v, want %v", order, want)
	}
	first, second, third := w.linkOf(&clients[0], 0), w.linkOf(&a, 1), w.linkOf(&b, 2)
	if first.Spec.Endpoint.UID != a.UID || second.Spec.Endpoint.UID != b.UID || third.Spec.Endpoint.UID != endpoint.UID || len(w.Links) != 4 {
		t.Fatalf("%d links: %+v, %+v, %+v", len(w.Links), first.Spec, second.Spec, third.Spec)
	}
	host := func(end *v1alpha1.LinkEnd) string { return addressesOf(end)[0].String() + "/32" }
	if want := []string{host(&third.Spec.Endpoint), host(&second.Spec.Endpoint)}; !reflect.DeepEqual(first.Spec.Client.Routes, want) {
		t.Errorf("the client has the routes %v, want %v", first.Spec.Client.Routes, want)
	}
	sources := []string{host(&second.Spec.Client), host(&first.Spec.Client), host(&w.linkOf(&clients[1], 0).Spec.Client)}
	slices.Sort(sources)
	got := slices.Sorted(slices.Values(third.Spec.Endpoint.Routes))
	if !reflect.DeepEqual(got, sources) {
		t.Errorf("the endpoint has routes back to %v, want %v", got, sources)
	}
	if !reflect.DeepEqual(first.Spec.Endpoint.Forward, []string{"IPv4"}) || first.Spec.Client.Forward != nil || third.Spec.Endpoint.Forward != nil {
		t.Error("others forward than those in the middle")
	}
	if first.Spec.Client.Names[0] != "a.s.ns.tsn.internal" || first.Spec.Client.Hosts[1].Name != "s" ||
		first.Spec.Client.Hosts[1].Addresses[0] != addressesOf(&third.Spec.Endpoint)[0].String() {
		t.Errorf("the client knows %v and %v", first.Spec.Client.Names, first.Spec.Client.Hosts)
	}
}

func TestReplaceElement(t *testing.T) {
	w, a, _, _, clients := chained(t)
	w.settle(t)
	other := *w.middle("node1", "s", "a")
	w.settle(t)
	w.removePod(a.UID)
	plan := w.round() // which only has the way behind the other one made
	if len(plan.Delete) != 1 || plan.Delete[0].Link.Spec.Hop != 1 || len(plan.Make) != 1 || w.linkOf(&clients[0], 0).Spec.Endpoint.UID != a.UID {
		t.Fatalf("it broke before it made: %+v", plan.Delete)
	}
	w.settle(t)
	for i := range clients {
		if got := w.linkOf(&clients[i], 0).Spec.Endpoint.UID; got != other.UID {
			t.Errorf("client %d is linked to %s, want %s", i, got, other.UID)
		}
	}
	if w.linkOf(&a, 1) != nil {
		t.Error("the link of the dead one stays")
	}
}

func TestReplaceEndpointOfChain(t *testing.T) {
	w, _, b, endpoint, clients := chained(t)
	w.settle(t)
	before := w.linkOf(&clients[0], 0).Spec.VNI
	other := *w.endpoint("node1", "s")
	w.removePod(endpoint.UID)
	w.settle(t)
	if w.linkOf(&b, 2).Spec.Endpoint.UID != other.UID || w.linkOf(&clients[0], 0).Spec.VNI != before {
		t.Error("the last link was not replaced, or the first one was")
	}
	if want := addressesOf(&w.linkOf(&b, 2).Spec.Endpoint)[0].String() + "/32"; !slices.Contains(w.linkOf(&clients[0], 0).Spec.Client.Routes, want) {
		t.Errorf("the client's routes %v lack %s", w.linkOf(&clients[0], 0).Spec.Client.Routes, want)
	}
}

func TestFindLoops(t *testing.T) {
	t.Run("of services that wait for each other", func(t *testing.T) {
		w := newWorld(1)
		w.Services = append(w.Services, newService("x", "10.200.0.0/16"), newService("y", "10.201.0.0/16"))
		for _, owner := range [][2]string{{"x", "y"}, {"y", "x"}} {
			pod := w.add("node0", map[string]string{v1alpha1.ClientLabelPrefix + owner[0]: "up", v1alpha1.EndpointLabelPrefix + owner[1]: "down"})
			pod.Ready = false
		}
		plan := w.settle(t)
		finding := plan.Services[Key{Namespace: "ns", Name: "x"}].Findings[0]
		if finding.Reason != v1alpha1.ReasonChainLoop || !strings.Contains(finding.Text, "ns/x -> ns/y -> ns/x") {
			t.Errorf("got %+v", finding)
		}
	})
	t.Run("of a pod that two elements select", func(t *testing.T) {
		w := newWorld(1)
		service := newService("s", "10.200.0.0/16")
		service.Spec.Chain = []v1alpha1.ChainElement{element("a"), element("b")}
		service.Spec.Chain[1].Selector = service.Spec.Chain[0].Selector
		w.Services = append(w.Services, service)
		pod := *w.middle("node0", "s", "a")
		w.endpoint("node0", "s")
		client := *w.client("node0", "s")
		plan := w.settle(t)
		const text = "is selected by several elements of spec.chain of TSNService ns/s (a, b), so that the chain would lead through it twice; let one select it"
		findings := plan.Services[Key{Namespace: "ns", Name: "s"}].Findings
		if currentFindings := plan.Pods[pod.UID]; len(currentFindings) != 1 || currentFindings[0].Reason != v1alpha1.ReasonChainLoop || !strings.Contains(currentFindings[0].Text, text) ||
			len(findings) == 0 || findings[0].Reason != v1alpha1.ReasonChainLoop || !strings.Contains(findings[0].Text, "pod "+pod.FullName()+": the pod "+text) {
			t.Errorf("got %+v, %+v", currentFindings, findings)
		}
		if currentFindings := plan.Pods[client.UID]; len(w.Links) != 0 || len(currentFindings) != 1 || currentFindings[0].Reason != v1alpha1.ReasonNoElement {
			t.Errorf("%d links, and the client is told %+v", len(w.Links), currentFindings)
		}
	})
	t.Run("of a service whose endpoint is its own client", func(t *testing.T) {
		w := newWorld(1)
		w.Services = append(w.Services, newService("x", "10.200.0.0/16"))
		pod := w.add("node0", map[string]string{v1alpha1.ClientLabelPrefix + "x.ns": "up", v1alpha1.EndpointLabelPrefix + "x": "down"})
		plan := w.settle(t)
		if findings := plan.Pods[pod.UID]; len(w.Links) != 0 || len(findings) != 1 || !strings.Contains(findings[0].Text, "has no spec.chain; remove one of the two labels") {
			t.Errorf("%d links, and the pod is told %+v", len(w.Links), findings)
		}
	})
	t.Run("of an element that is also the endpoint", func(t *testing.T) {
		w := newWorld(1)
		service := newService("s", "10.200.0.0/16")
		service.Spec.Chain = []v1alpha1.ChainElement{element("a")}
		service.Spec.Endpoint = &metav1.LabelSelector{MatchLabels: map[string]string{"element": "a"}}
		w.Services = append(w.Services, service)
		pod := *w.middle("node0", "s", "a")
		w.client("node0", "s")
		plan := w.settle(t)
		if finding := plan.Pods[pod.UID][0]; finding.Reason != v1alpha1.ReasonChainLoop || !strings.Contains(finding.Text, "is element a of the chain of TSNService ns/s and, by spec.endpoint, its endpoint") {
			t.Errorf("got %+v", finding)
		}
	})
}

func TestConflictOlderServiceWins(t *testing.T) {
	w := newWorld(1)
	older, younger := newService("older", "10.200.0.0/16"), newService("younger", "10.200.128.0/17")
	younger.CreationTimestamp.Time = start.Add(time.Second)
	network := v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "net", CreationTimestamp: metav1.Time{Time: start}},
		Spec: v1alpha1.TSNNetworkSpec{VNI: 42, IPv4: v1alpha1.Range4{CIDR: "10.42.0.0/16"}}}
	beside := newService("beside", "10.42.1.0/24")
	beside.CreationTimestamp.Time = start.Add(time.Second)
	w.Services, w.Networks = append(w.Services, younger, older, beside), append(w.Networks, network)
	for _, service := range w.Services {
		w.endpoint("node0", service.Name)
		w.client("node0", service.Name)
	}
	plan := w.settle(t)
	if len(w.Links) != 1 || w.Links[0].Spec.Service != "older" {
		t.Errorf("%d links", len(w.Links))
	}
	for name, text := range map[string]string{"younger": "TSNService ns/older has addresses of the same range, 10.200.0.0/16", "beside": "TSNNetwork net has addresses of the same range, 10.42.0.0/16"} {
		if findings := plan.Services[Key{Namespace: "ns", Name: name}].Findings; len(findings) != 1 || findings[0].Reason != v1alpha1.ReasonOverlaps || !strings.HasPrefix(findings[0].Text, text) {
			t.Errorf("%s: %+v", name, findings)
		}
	}
	// A network that comes later goes before a service all the same: its administrator does not wait for a tenant.
	w.Networks[0].CreationTimestamp.Time = start.Add(time.Hour)
	if what, _ := Conflict(&w.Services[len(w.Services)-1], w.Services, w.Networks); what != "TSNNetwork net" {
		t.Errorf("the older service is in conflict with %q", what)
	}
}

// TestReservedRanges has services whose ranges or routes have addresses of the cluster's own.
func TestReservedRanges(t *testing.T) {
	w := newWorld(1)
	for _, text := range []string{"10.96.0.0/12", "10.244.3.0/24"} {
		w.Reserved = append(w.Reserved, Reserved{Range: netip.MustParsePrefix(text), What: "the cluster's Services"})
	}
	inside, around, routed := newService("inside", "10.96.7.0/24"), newService("around", "10.128.0.0/9"), newService("routed", "10.9.0.0/16")
	routed.Spec.Routes = []v1alpha1.ServiceRoute{{To: "0.0.0.0/1"}, {To: "10.96.0.10/32"}, {To: "192.168.7.0/24"}}
	w.Services = append(w.Services, inside, around, routed)
	for _, service := range w.Services {
		w.endpoint("node0", service.Name)
		w.client("node0", service.Name)
	}
	plan := w.settle(t)
	if len(w.Links) != 1 || w.Links[0].Spec.Service != "routed" || !slices.Equal(w.Links[0].Spec.Client.Routes, []string{"192.168.7.0/24"}) {
		t.Errorf("the links are %+v", w.Links)
	}
	for name, texts := range map[string][]string{
		"inside": {"the cluster's Services has addresses of the same range, 10.96.0.0/12"}, "around": {"the cluster's Services has addresses of the same range, 10.244.3.0/24"},
		"routed": {"route 0.0.0.0/1 is not set in pods", "route 10.96.0.10/32 is not set in pods"},
	} {
		findings := plan.Services[Key{Namespace: "ns", Name: name}].Findings
		for i, text := range texts {
			if len(findings) != len(texts) || findings[i].Reason != v1alpha1.ReasonOverlaps || !strings.HasPrefix(findings[i].Text, text) {
				t.Errorf("%s: %+v, want %q", name, findings, text)
			}
		}
	}
}

func TestPodFindings(t *testing.T) {
	for name, test := range map[string]struct {
		change       func(w *world, pod *Pod)
		reason, text string
	}{
		"of a service that does not exist": {func(w *world, _ *Pod) { w.Services = nil }, v1alpha1.ReasonServiceMissing, "there is no TSNService ns/s"},
		"of a namespace that may not": {func(_ *world, pod *Pod) {
			pod.Namespace = "other"
			pod.Labels = map[string]string{v1alpha1.ClientLabelPrefix + "s.ns": "up"}
		}, v1alpha1.ReasonServiceForbidden, "without spec.clientNamespaces"},
		"without an endpoint":              {func(*world, *Pod) {}, v1alpha1.ReasonNoEndpoint, "none has the label endpoint.kubernetsn.io/s"},
		"of an endpoint that is not ready": {func(w *world, _ *Pod) { w.endpoint("node0", "s").Ready = false }, v1alpha1.ReasonNoEndpoint, "(ns/pod2: it is not ready)"},
		"on a node without links": {func(w *world, _ *Pod) {
			w.Nodes["node0"] = Node{Address: w.Nodes["node0"].Address, Ready: true, Unfit: "it has Open vSwitch"}
		}, v1alpha1.ReasonNodeUnfit, "no link can end on node node0 of the pod: it has Open vSwitch"},
		"with a value that is no interface": {func(_ *world, pod *Pod) {
			pod.Labels = map[string]string{v1alpha1.ClientLabelPrefix + "s": "much-too-long-for-one"}
		},
			v1alpha1.ReasonLabelInvalid, "has 21 characters"},
		"of both roles without a chain": {func(_ *world, pod *Pod) { pod.Labels[v1alpha1.EndpointLabelPrefix+"s"] = "down" }, v1alpha1.ReasonServiceForbidden, "has no spec.chain; remove one of the two labels"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1)
			w.Services = append(w.Services, newService("s", "10.200.0.0/16"))
			pod := w.client("node0", "s")
			uid := pod.UID
			test.change(w, pod)
			plan := w.settle(t)
			if findings := plan.Pods[uid]; len(findings) != 1 || findings[0].Reason != test.reason || !strings.Contains(findings[0].Text, test.text) {
				t.Errorf("got %+v, want %s: %s", findings, test.reason, test.text)
			}
		})
	}
}

func TestFederatorLink(t *testing.T) {
	w := newWorld(1)
	w.Services = append(w.Services, newService("s", "10.200.0.0/16"))
	client := *w.client("node0", "s")
	hub := v1alpha1.TSNLink{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s-hub-x", Labels: map[string]string{v1alpha1.LinkMakerLabel: v1alpha1.MakerFederator}},
		Spec: v1alpha1.TSNLinkSpec{Service: "s", VNI: 0x800000, Client: v1alpha1.LinkEnd{UID: client.UID, Interface: "up", Addresses: []string{"10.200.0.0/31"}},
			Endpoint: v1alpha1.LinkEnd{Cluster: "other", UID: "elsewhere", Interface: "down1000"}}}
	w.Links = append(w.Links, hub)
	w.endpoint("node0", "s")
	plan := w.settle(t)
	if len(w.Links) != 1 || len(plan.Services[Key{Namespace: "ns", Name: "s"}].Status.Wants) != 1 {
		t.Errorf("%d links, %+v", len(w.Links), plan.Services[Key{Namespace: "ns", Name: "s"}])
	}
	another := *w.client("node0", "s")
	w.settle(t)
	if link := w.linkOf(&another, 0); link == nil || link.Spec.VNI != 0x800001 || link.Spec.Client.Addresses[0] != "10.200.0.2/31" {
		t.Errorf("got %+v", link)
	}
}

func TestReplaceWithExhaustedRange(t *testing.T) {
	w := newWorld(1)
	w.Services = append(w.Services, newService("s", "10.200.0.0/30")) // room for two
	old := w.endpoint("node0", "s").UID
	clients := []Pod{*w.client("node0", "s"), *w.client("node0", "s")}
	w.settle(t)
	next := w.endpoint("node0", "s").UID
	if plan := w.settle(t); len(w.Links) != 2 {
		t.Fatalf("there are %d links: %+v", len(w.Links), plan.Pods)
	}
	w.pod(old).Ready = false // and may be again: nothing else can be made
	if w.settle(t); len(w.Links) != 2 {
		t.Errorf("there are %d links to a pod that is not ready", len(w.Links))
	}
	w.removePod(old)
	if w.settle(t); len(w.Links) != 0 {
		t.Errorf("%d links to a pod that is gone stay", len(w.Links))
	}
	w.Released = nil // after a while
	w.settle(t)
	for i := range clients {
		if link := w.linkOf(&clients[i], 0); link == nil || link.Spec.Endpoint.UID != next {
			t.Errorf("%s has the link %+v", clients[i].Name, link)
		}
	}
}
