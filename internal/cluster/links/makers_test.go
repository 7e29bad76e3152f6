// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// hubWorld is what a hub knows: pods of clusters east and west, each with one node.
func hubWorld(prefer string) *world {
	w := newWorld(2)
	w.Maker, w.FirstInterface = v1alpha1.MakerFederator, 5000
	w.Services = []v1alpha1.TSNService{newService("plant", "10.200.0.0/24")}
	w.Services[0].Spec.Prefer = prefer
	return w
}

func in(cluster string, pod *Pod) *Pod {
	pod.Cluster = cluster
	return pod
}

func TestPreferenceAcrossClusters(t *testing.T) {
	for prefer, want := range map[string]string{v1alpha1.PreferSameNode: "uid2", v1alpha1.PreferSameCluster: "uid2", v1alpha1.PreferAny: "uid1"} {
		w := hubWorld(prefer)
		in("west", w.endpoint("node1", "plant"))
		in("east", w.endpoint("node0", "plant")).Links = 7
		client := *in("east", w.client("node0", "plant"))
		w.settle(t)
		if link := w.linkOf(&client, 0); link == nil || link.Spec.Endpoint.UID != want || link.Spec.Endpoint.Interface != "down5000" ||
			!strings.HasSuffix(link.Name, "-hub") || link.Labels[v1alpha1.LinkMakerLabel] != v1alpha1.MakerFederator {
			t.Errorf("%s: the link is %+v, and should lead to %s", prefer, link, want)
		}
	}
}

func TestLimitCountsOtherMakers(t *testing.T) {
	w := hubWorld(v1alpha1.PreferAny)
	w.Services[0].Spec.Limits = &v1alpha1.LinkLimits{LinksPerEndpoint: 2}
	w.endpoint("node0", "plant").Links = 1
	w.client("node1", "plant")
	w.client("node1", "plant")
	plan := w.settle(t)
	if len(w.Links) != 1 || plan.Services[Key{Namespace: "ns", Name: "plant"}].Findings[0].Reason != v1alpha1.ReasonLimitReached {
		t.Errorf("%d links, %+v", len(w.Links), plan.Services)
	}
	if offers := plan.Services[Key{Namespace: "ns", Name: "plant"}].Status.Offers; offers[0].Links != 1 {
		t.Errorf("offered with %d links, and one is the maker's", offers[0].Links)
	}
}

func TestElementOfOtherMakerIsSkipped(t *testing.T) {
	w := hubWorld(v1alpha1.PreferAny)
	w.Services[0].Spec.Chain = []v1alpha1.ChainElement{element("filter")}
	w.endpoint("node0", "plant")
	middle := *w.middle("node0", "plant", "filter")
	far := *w.client("node1", "plant")
	w.settle(t)
	if len(w.Links) != 2 || w.linkOf(&far, 0) == nil {
		t.Fatalf("the hub has %d links", len(w.Links))
	}
	w.Maker, w.FirstInterface = "", 0
	near := *w.client("node0", "plant")
	plan := w.settle(t)
	if w.linkOf(&near, 0) != nil || len(w.Links) != 2 {
		t.Errorf("the operator's client is linked by %s, whose link onward is the hub's", middle.Name)
	}
	if wants := plan.Services[Key{Namespace: "ns", Name: "plant"}].Status.Wants; len(wants) != 2 {
		t.Errorf("wants are %+v", wants)
	}
	if offers := plan.Services[Key{Namespace: "ns", Name: "plant"}].Status.Offers; offers[1].Onward != "on" && offers[0].Onward != "on" {
		t.Errorf("offers are %+v", offers)
	}
	other := *w.middle("node1", "plant", "filter")
	w.settle(t)
	if link := w.linkOf(&near, 0); link == nil || link.Spec.Endpoint.UID != other.UID || link.Spec.Endpoint.Interface != "from0" {
		t.Errorf("by another element the link is %+v", link)
	}
}

func TestWants(t *testing.T) {
	w := newWorld(1)
	w.Services = []v1alpha1.TSNService{newService("plant", "10.200.0.0/24")}
	linked := func(pod *Pod) {
		link := v1alpha1.TSNLink{Spec: v1alpha1.TSNLinkSpec{Service: "plant", VNI: v1alpha1.LastLinkVNI}}
		link.Namespace, link.Name, link.Labels = "ns", "plant-"+pod.UID+hubSuffix, map[string]string{v1alpha1.LinkMakerLabel: v1alpha1.MakerFederator}
		link.Spec.Client = v1alpha1.LinkEnd{Cluster: "east", Namespace: "ns", Pod: pod.Name, UID: pod.UID, Node: pod.Node, NodeAddress: "192.0.2.1", Interface: "up"}
		link.Spec.Endpoint = v1alpha1.LinkEnd{Cluster: "west", UID: "far", Node: "node0", NodeAddress: "192.0.2.99"}
		w.Links = append(w.Links, link)
	}
	for range v1alpha1.MaxServicePods {
		linked(w.client("node0", "plant"))
	}
	const late = 30
	for range late {
		w.client("node0", "plant")
	}
	gone := []string{"uid1", "uid100", "uid7"}
	for _, uid := range gone {
		w.removePod(uid)
	}
	// A link to an endpoint of this cluster, whose client is another's.
	mine := *w.endpoint("node0", "other")
	foreign := w.Links[0].DeepCopy()
	foreign.Name, foreign.Spec.Client.UID, foreign.Spec.Client.NodeAddress = "plant-foreign-hub", "foreign", "192.0.2.98"
	foreign.Spec.Endpoint = v1alpha1.LinkEnd{UID: mine.UID, Node: mine.Node, NodeAddress: "192.0.2.1"}
	w.Links = append(w.Links, *foreign)
	status := Plan(&w.Input).Services[Key{Namespace: "ns", Name: "plant"}].Status
	if len(status.Wants) != v1alpha1.MaxServicePods || !slices.Equal(status.Left, gone) {
		t.Errorf("%d want links, and %v have left", len(status.Wants), status.Left)
	}
	for i := range status.Wants {
		number, err := strconv.Atoi(strings.TrimPrefix(status.Wants[i].UID, "uid"))
		if err != nil || (number > v1alpha1.MaxServicePods) != (i < late) {
			t.Errorf("number %d of those that want links is %s", i, status.Wants[i].UID)
		}
	}
}

func TestReplaceHubLink(t *testing.T) {
	w := hubWorld(v1alpha1.PreferAny)
	far := *in("west", w.endpoint("node1", "plant"))
	client := *in("east", w.client("node0", "plant"))
	w.settle(t)
	// The client's cluster while its hub is away.
	w.Maker, w.FirstInterface = "", 0
	w.removePod(far.UID)
	get := func() *v1alpha1.TSNLink {
		for i := range w.Links {
			if w.Links[i].Labels[v1alpha1.LinkMakerLabel] == v1alpha1.MakerOperator {
				return &w.Links[i]
			}
		}
		return nil
	}
	near := *w.endpoint("node0", "plant")
	w.settle(t)
	w.setUp(&w.Links[0], false)
	w.Now = w.Now.Add(HubLinkTimeout - time.Second)
	if plan := w.settle(t); get() != nil || plan.RequeueAfter != time.Second {
		t.Fatalf("it is not the hub's any more after %v, or nobody looks again: %+v", HubLinkTimeout-time.Second, plan)
	}
	w.Now = w.Now.Add(time.Second)
	plan := w.settle(t)
	if link := get(); link == nil || link.Spec.Endpoint.UID != near.UID || link.Spec.Client.UID != client.UID || link.Spec.VNI == w.Links[0].Spec.VNI {
		t.Fatalf("the links are %+v", w.Links)
	}
	if wants := plan.Services[Key{Namespace: "ns", Name: "plant"}].Status.Wants; len(wants) != 0 {
		t.Errorf("the hub is still told of %+v", wants)
	}
	created := get().Name
	w.Links = slices.DeleteFunc(w.Links, func(link v1alpha1.TSNLink) bool { return link.Name != created }) // as the hub does when it is back
	w.settle(t)
	if len(w.Links) != 1 || get() == nil || get().Name != created {
		t.Errorf("without the hub's link, the links are %+v", w.Links)
	}
}

func TestClientNamesAreUnique(t *testing.T) {
	for name, test := range map[string]struct{ pod, namespace, cluster, want string }{
		"of the endpoint's cluster": {"a", "ns", "east", "[a.ns.plant.ns.tsn.internal]"},
		"of another namespace":      {"a", "other", "east", "[a.other.plant.ns.tsn.internal]"},
		"of another cluster":        {"a", "ns", "west", "[a.ns.west.plant.ns.tsn.internal]"},
		"with dots":                 {"a.ns", "west", "east", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := hubWorld(v1alpha1.PreferAny)
			w.Services[0].Spec.ClientNamespaces = &metav1.LabelSelector{}
			w.Namespaces[test.namespace] = nil
			in("east", w.endpoint("node0", "plant"))
			pod := in(test.cluster, w.client("node1", "plant"))
			pod.Name, pod.Namespace = test.pod, test.namespace
			pod.Labels = map[string]string{v1alpha1.ClientLabelPrefix + "plant.ns": "up"}
			client := *pod
			w.settle(t)
			if link := w.linkOf(&client, 0); link == nil || fmt.Sprint(link.Spec.Endpoint.Names) != test.want {
				t.Errorf("it is %+v, want the names %s", link, test.want)
			}
		})
	}
}
