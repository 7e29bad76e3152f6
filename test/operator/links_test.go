// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

const (
	linkLabelsStay = "are read when a pod is created, and can only be removed afterwards"
	onlyItsLinks   = "only TSNLinks with the label kubernetsn.io/link-maker=operator"
)

// linkLab is a namespace with two nodes and services.
type linkLab struct {
	ctx       context.Context
	t         testing.TB
	namespace string
	nodes     []*corev1.Node
}

func newLinkLab(ctx context.Context, t *testing.T, name string, services ...*v1alpha1.TSNService) *linkLab {
	t.Helper()
	lab := &linkLab{ctx: ctx, t: t, namespace: name}
	create(ctx, t, newNamespace(name, nil))
	for i := range 2 {
		node := newNode(fmt.Sprintf("%s-%d", name, i))
		create(ctx, t, node)
		lab.nodes = append(lab.nodes, node)
		lab.setReady(node, true)
	}
	for _, service := range services {
		service.Namespace = name
		create(ctx, t, service)
	}
	return lab
}

func (l *linkLab) setReady(node *corev1.Node, ready bool) {
	l.t.Helper()
	if err := get(l.ctx, node); err != nil {
		l.t.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: statusOf(ready)}}
	if err := admin.Status().Update(l.ctx, node); err != nil {
		l.t.Fatal(err)
	}
}

func statusOf(isTrue bool) corev1.ConditionStatus {
	if isTrue {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

func newService(name, cidr string) *v1alpha1.TSNService {
	return &v1alpha1.TSNService{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.TSNServiceSpec{IPv4: &v1alpha1.LinkRange{LinkCIDR: cidr}}}
}

// pod makes one with labels on a node, which kubelet says is ready.
func (l *linkLab) pod(t *testing.T, name string, node int, labels map[string]string, ready bool) *corev1.Pod {
	t.Helper()
	pod := plainPod(name, l.namespace)
	pod.Labels, pod.Spec.NodeName = labels, l.nodes[node].Name
	create(l.ctx, t, pod)
	if ready {
		l.podReady(t, pod, true)
	}
	return pod
}

func (l *linkLab) podReady(t *testing.T, pod *corev1.Pod, ready bool) {
	t.Helper()
	must(t, get(l.ctx, pod))
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: statusOf(ready)}}
	must(t, admin.Status().Update(l.ctx, pod))
}

func clientOf(service string) map[string]string {
	return map[string]string{v1alpha1.ClientLabelPrefix + service: "up"}
}

func endpointOf(service string) map[string]string {
	return map[string]string{v1alpha1.EndpointLabelPrefix + service: "down"}
}

// links are those of the namespace.
func (l *linkLab) links() []v1alpha1.TSNLink {
	l.t.Helper()
	var all v1alpha1.TSNLinkList
	if err := admin.List(l.ctx, &all, client.InNamespace(l.namespace)); err != nil {
		l.t.Fatal(err)
	}
	return all.Items
}

func (l *linkLab) awaitNoLinks(t *testing.T) {
	t.Helper()
	eventually(l.ctx, t, func() error {
		if left := l.links(); len(left) > 0 {
			return fmt.Errorf("%s is still there", left[0].Name)
		}
		return nil
	})
}

// awaitLink waits until a pod has a link to another one.
func (l *linkLab) awaitLink(t *testing.T, from, to *corev1.Pod) *v1alpha1.TSNLink {
	t.Helper()
	var linked v1alpha1.TSNLink
	eventually(l.ctx, t, func() error {
		var ends []string
		for _, link := range l.links() {
			if link.Spec.Client.UID == string(from.UID) && link.Spec.Endpoint.UID == string(to.UID) {
				linked = link
				return nil
			}
			ends = append(ends, link.Spec.Client.Pod+" -> "+link.Spec.Endpoint.Pod)
		}
		return fmt.Errorf("%s is not linked to %s; there are %v", from.Name, to.Name, ends)
	})
	return &linked
}

// service waits until look accepts the status and the condition Ready of a service, whose message has the texts.
func (l *linkLab) service(t *testing.T, service *v1alpha1.TSNService, look func(*v1alpha1.TSNServiceStatus, *metav1.Condition) bool, texts ...string) {
	t.Helper()
	await(l.ctx, t, service, func() error {
		ready := meta.FindStatusCondition(service.Status.Conditions, v1alpha1.ConditionReady)
		isMissing := func(text string) bool { return !strings.Contains(ready.Message, text) }
		if ready == nil || !look(&service.Status, ready) || slices.ContainsFunc(texts, isMissing) {
			return fmt.Errorf("%s is %+v, %+v, want %q", service.Name, service.Status, ready, texts)
		}
		return nil
	})
}

// hasReason accepts a service whose condition Ready is False for a reason.
func hasReason(reason string) func(*v1alpha1.TSNServiceStatus, *metav1.Condition) bool {
	return func(_ *v1alpha1.TSNServiceStatus, ready *metav1.Condition) bool {
		return ready.Status == metav1.ConditionFalse && ready.Reason == reason
	}
}

// awaitMessage waits for an Event of a pod with a text in its message.
func (l *linkLab) awaitMessage(t *testing.T, pod *corev1.Pod, reason, text string) {
	t.Helper()
	eventually(l.ctx, t, func() error {
		var all corev1.EventList
		if err := admin.List(l.ctx, &all, client.InNamespace(l.namespace)); err != nil {
			return err
		}
		var seen []string
		for _, event := range all.Items {
			if event.InvolvedObject.Name == pod.Name && event.Reason == reason && strings.Contains(event.Message, text) {
				return nil
			}
			seen = append(seen, event.InvolvedObject.Name+": "+event.Reason+": "+event.Message)
		}
		return fmt.Errorf("%s was not told %s: %s; events are %q", pod.Name, reason, text, seen)
	})
}

// reportLink reports a link as the agents do.
func reportLink(ctx context.Context, t *testing.T, link *v1alpha1.TSNLink, up bool) {
	t.Helper()
	status := metav1.ConditionStatus(statusOf(up))
	text := fmt.Sprintf(`{"status":{"conditions":[
		{"type":"ClientPlugged","status":"True","reason":"Plugged","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"},
		{"type":"Up","status":%q,"reason":"Probed","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, status)
	mustPatchStatus(ctx, t, link.DeepCopy(), text)
}

func TestServicePodsAreLinked(t *testing.T) {
	ctx := needOperator(t)
	service := newService("camera", "10.201.0.0/24")
	lab := newLinkLab(ctx, t, "links-pair", service)
	from := lab.pod(t, "client", 0, clientOf("camera"), false)
	lab.awaitMessage(t, from, v1alpha1.ReasonNoEndpoint, "none has the label endpoint.kubernetsn.io/camera")
	lab.service(t, service, func(status *v1alpha1.TSNServiceStatus, ready *metav1.Condition) bool {
		return status.Clients == 1 && len(status.Wants) == 1 && ready.Status == metav1.ConditionFalse && ready.Reason == v1alpha1.ReasonNoEndpoint
	})
	to := lab.pod(t, "endpoint", 1, endpointOf("camera"), true)
	link := lab.awaitLink(t, from, to)
	if owners := link.OwnerReferences; len(owners) != 1 || owners[0].UID != service.UID || link.Labels[v1alpha1.LinkMakerLabel] != v1alpha1.MakerOperator {
		t.Errorf("it is %+v", link.ObjectMeta)
	}
	if link.Spec.VNI < v1alpha1.FirstLinkVNI || link.Spec.Client.Interface != "up" || link.Spec.Endpoint.Interface != "down0" ||
		link.Spec.Client.Addresses[0] != "10.201.0.0/31" || link.Spec.Endpoint.NodeAddress != lab.nodes[1].Status.Addresses[0].Address {
		t.Errorf("it is %+v", link.Spec)
	}
	lab.awaitMessage(t, from, v1alpha1.ReasonLinked, "interface up is linked to pod links-pair/endpoint for TSNService camera")
	reportLink(ctx, t, link, true)
	lab.service(t, service, func(status *v1alpha1.TSNServiceStatus, ready *metav1.Condition) bool {
		return status.Linked == 1 && status.Endpoints == 1 && len(status.Offers) == 1 && status.Offers[0].Links == 1 && len(status.Wants) == 0 &&
			ready.Status == metav1.ConditionTrue
	})
}

func TestLinkHeals(t *testing.T) {
	ctx := needOperator(t)
	lab := newLinkLab(ctx, t, "links-heal", newService("s", "10.202.0.0/24"))
	first := lab.pod(t, "first", 0, endpointOf("s"), true)
	from := lab.pod(t, "client", 0, clientOf("s"), false)
	before := lab.awaitLink(t, from, first)
	second := lab.pod(t, "second", 1, endpointOf("s"), true)
	remove(ctx, t, first)
	after := lab.awaitLink(t, from, second)
	if after.Name != before.Name || after.UID == before.UID || after.Spec.VNI == before.Spec.VNI {
		t.Errorf("before %s %d, after %s %d", before.Name, before.Spec.VNI, after.Name, after.Spec.VNI)
	}
	// The operator can see the pod go or gone; of both the sentence names the pod.
	lab.awaitMessage(t, from, v1alpha1.ReasonHealed, "; pod links-heal/second takes its place")
	third := lab.pod(t, "third", 0, endpointOf("s"), true)
	lab.setReady(lab.nodes[1], false)
	last := lab.awaitLink(t, from, third)
	reportLink(ctx, t, last, false)
	lab.setReady(lab.nodes[1], true)
	lab.awaitLink(t, from, second)
	mustPatch(ctx, t, from, `{"metadata":{"labels":{"client.kubernetsn.io/s":null}}}`)
	lab.awaitNoLinks(t)
	lab.awaitMessage(t, from, v1alpha1.ReasonUnlinked, "pod links-heal/client is no client of TSNService links-heal/s any more")
}

func TestChain(t *testing.T) {
	ctx := needOperator(t)
	service := newService("s", "10.203.0.0/24")
	service.Spec.Chain = []v1alpha1.ChainElement{{Name: "filter", Selector: *selector("app", "filter"), Forward: []string{"IPv4"}}}
	lab := newLinkLab(ctx, t, "links-chain", service)
	to := lab.pod(t, "endpoint", 1, endpointOf("s"), true)
	from := lab.pod(t, "client", 0, clientOf("s"), false)
	labels := map[string]string{"app": "filter", v1alpha1.ClientLabelPrefix + "s": "next", v1alpha1.EndpointLabelPrefix + "s": "before"}
	between := lab.pod(t, "between", 0, labels, true)
	second := lab.awaitLink(t, between, to)
	time.Sleep(300 * time.Millisecond)
	if all := lab.links(); len(all) != 1 {
		t.Fatalf("%d links, though the one behind is not up", len(all))
	}
	reportLink(ctx, t, second, true)
	first := lab.awaitLink(t, from, between)
	address := func(text string) string { return strings.Split(text, "/")[0] + "/32" }
	if !slices.Equal(first.Spec.Client.Routes, []string{address(second.Spec.Endpoint.Addresses[0])}) {
		t.Errorf("the client has the routes %v", first.Spec.Client.Routes)
	}
	await(ctx, t, second, func() error {
		if !slices.Equal(second.Spec.Endpoint.Routes, []string{address(first.Spec.Client.Addresses[0])}) {
			return fmt.Errorf("the endpoint has the routes %v", second.Spec.Endpoint.Routes)
		}
		return nil
	})
	if first.Spec.Endpoint.Forward[0] != "IPv4" || second.Spec.Client.Forward[0] != "IPv4" {
		t.Error("the pod between does not forward")
	}
}

func TestOverlappingRanges(t *testing.T) {
	ctx := needOperator(t)
	older, younger := newService("older", "10.204.0.0/16"), newService("younger", "10.204.1.0/24")
	lab := newLinkLab(ctx, t, "links-range", older)
	time.Sleep(1100 * time.Millisecond) // ages have seconds
	younger.Namespace = lab.namespace
	network, late := newNetwork("links-range", 204, "10.204.0.0/16"), newNetwork("links-vni", v1alpha1.FirstLinkVNI, "10.205.0.0/16")
	create(ctx, t, younger, network, late)
	const taken = " has addresses of the same range, 10.204.0.0/16, and takes precedence over this service"
	lab.service(t, younger, hasReason(v1alpha1.ReasonOverlaps), "TSNService links-range/older"+taken)
	// A service, which a tenant makes, does not keep a network from its addresses.
	condition(ctx, t, network, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
	lab.service(t, older, hasReason(v1alpha1.ReasonOverlaps), "TSNNetwork links-range"+taken)
	condition(ctx, t, late, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonOverlaps, "spec.vni is 8388608, and numbers from 8388608 on are reserved for links")
}

func TestLinksAreDeletedWithService(t *testing.T) {
	ctx := needOperator(t)
	service := newService("s", "10.206.0.0/24")
	lab := newLinkLab(ctx, t, "links-gone", service)
	to := lab.pod(t, "endpoint", 0, endpointOf("s"), true)
	lab.awaitLink(t, lab.pod(t, "client", 0, clientOf("s"), false), to)
	remove(ctx, t, service)
	lab.awaitNoLinks(t)
}

func TestLinksAttachment(t *testing.T) {
	ctx := needOperator(t)
	created := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition"}}
	created.SetName(v1alpha1.LinksAttachment)
	created.SetNamespace(system)
	eventually(ctx, t, func() error { return get(ctx, created) })
	if got, _, _ := unstructured.NestedString(created.Object, "spec", "config"); got != `{"cniVersion":"1.1.0","name":"kubernetsn-links","type":"tsn-cni","links":true}` {
		t.Errorf("its configuration is %s", got)
	}
}

func TestServiceUpdates(t *testing.T) {
	ctx := needServer(t)
	const namespace = "changed-services"
	create(ctx, t, newNamespace(namespace, nil))
	kept := newService("kept", "10.210.0.0/24")
	kept.Namespace = namespace
	create(ctx, t, kept)
	for name, test := range map[string]struct {
		change   func(*v1alpha1.TSNServiceSpec)
		sentence string
	}{
		"the MTU":                    {func(s *v1alpha1.TSNServiceSpec) { s.MTU = 1400 }, ""},
		"another range":              {func(s *v1alpha1.TSNServiceSpec) { s.IPv4.LinkCIDR = "10.211.0.0/24" }, "linkCIDR cannot be changed"},
		"a range more":               {func(s *v1alpha1.TSNServiceSpec) { s.IPv6 = &v1alpha1.LinkRange{LinkCIDR: "fd99::/64"} }, "ipv4 and ipv6 cannot be added to or taken from a service"},
		"IPv6 instead of IPv4":       {func(s *v1alpha1.TSNServiceSpec) { s.IPv4, s.IPv6 = nil, &v1alpha1.LinkRange{LinkCIDR: "fd99::/64"} }, "ipv4 and ipv6 cannot be added to or taken from a service"},
		"numbers that a network has": {func(s *v1alpha1.TSNServiceSpec) { s.VNIs = &v1alpha1.VNIRange{First: 100, Last: 0x900000} }, "spec.vnis.first"},
		"numbers that are for links": {func(s *v1alpha1.TSNServiceSpec) { s.VNIs = &v1alpha1.VNIRange{First: 0x800000, Last: 0x900000} }, ""},
		"numbers in the wrong order": {func(s *v1alpha1.TSNServiceSpec) { s.VNIs = &v1alpha1.VNIRange{First: 0x900000, Last: 0x800000} }, "vnis.first must not be larger than vnis.last"},
	} {
		t.Run(name, func(t *testing.T) {
			service := kept.DeepCopy()
			test.change(&service.Spec)
			checkRefusal(t, "", admin.Patch(ctx, service, client.MergeFrom(kept), client.DryRunAll), test.sentence)
		})
	}
}

func TestLinkLabelUpdates(t *testing.T) {
	ctx := needPolicy(t)
	plain, linked := plainPod("links-plain", "default"), plainPod("links-linked", "default")
	linked.Labels = clientOf("nothing")
	create(ctx, t, plain, linked)
	for name, test := range map[string]struct {
		pod             *corev1.Pod
		patch, sentence string
	}{
		"added":                 {plain, `{"labels":{"client.kubernetsn.io/s":"up"}}`, linkLabelsStay},
		"added to another":      {linked, `{"labels":{"endpoint.kubernetsn.io/s":"down"}}`, linkLabelsStay},
		"changed":               {linked, `{"labels":{"client.kubernetsn.io/nothing":"other"}}`, linkLabelsStay},
		"removed":               {linked, `{"labels":{"client.kubernetsn.io/nothing":null}}`, ""},
		"others' label changed": {linked, `{"labels":{"a":"b"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := admin.Patch(ctx, test.pod.DeepCopy(), mergePatch(`{"metadata":`+test.patch+`}`), client.DryRunAll)
			checkRefusal(t, "", err, test.sentence)
		})
	}
}

func TestOperatorCreatesNoHubLinks(t *testing.T) {
	ctx := needPolicy(t)
	end := v1alpha1.LinkEnd{Namespace: "default", Pod: "p", UID: "u", Node: "n", NodeAddress: "192.0.2.1", Interface: "up", Addresses: []string{"10.0.0.0/31"}}
	link := &v1alpha1.TSNLink{ObjectMeta: metav1.ObjectMeta{Name: "l", Namespace: "default", Labels: map[string]string{v1alpha1.LinkMakerLabel: v1alpha1.MakerFederator}},
		Spec: v1alpha1.TSNLinkSpec{Service: "s", VNI: v1alpha1.FirstLinkVNI, Client: end, Endpoint: end}}
	checkRefusal(t, "", operatorWithAllRights(t).Create(ctx, link, client.DryRunAll), onlyItsLinks)
}

func TestHundredClients(t *testing.T) {
	ctx := needOperator(t)
	const count = 100
	service := newService("s", "10.207.0.0/16")
	lab := newLinkLab(ctx, t, "links-many", service)
	for i := range 4 {
		lab.pod(t, fmt.Sprintf("endpoint-%d", i), i%2, endpointOf("s"), true)
	}
	for i := range count {
		lab.pod(t, fmt.Sprintf("client-%d", i), i%2, clientOf("s"), false)
	}
	began := time.Now()
	eventually(ctx, t, func() error {
		if got := len(lab.links()); got != count {
			return fmt.Errorf("%d links", got)
		}
		return nil
	})
	t.Logf("the last of %d links was there %v after the last client", count, time.Since(began))
	vnis, loads := map[int32]bool{}, map[string]int{}
	for _, link := range lab.links() {
		vnis[link.Spec.VNI] = true
		loads[link.Spec.Endpoint.Pod]++
		if link.Spec.Client.Node != link.Spec.Endpoint.Node {
			t.Errorf("%s leads to another node", link.Name)
		}
	}
	if len(vnis) != count || len(loads) != 4 {
		t.Errorf("%d numbers, and loads %v", len(vnis), loads)
	}
	for name, load := range loads {
		if load != count/4 {
			t.Errorf("%s has %d links, want %d", name, load, count/4)
		}
	}
}
