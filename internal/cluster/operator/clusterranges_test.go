// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
)

// TestNodeClaims has a node report addresses of services as its own. It succeeds where the operator has not accepted them before,
// whatever conditions and links say, and always for other services.
func TestNodeClaims(t *testing.T) {
	for name, test := range map[string]struct {
		address, podCIDR string
		accepted         []string
		ready            string
		maker            string
		blocked          string
	}{
		"address of the range":        {address: "10.60.0.1", accepted: []string{"10.60.0.0/16"}},
		"podCIDR around the range":    {podCIDR: "10.0.0.0/8", accepted: []string{"10.60.0.0/16", "10.9.0.0/16"}},
		"address of a route":          {address: "10.9.0.1", accepted: []string{"10.9.0.0/16"}},
		"podCIDR around a route":      {podCIDR: "10.8.0.0/14", accepted: []string{"10.9.0.0/16"}, ready: v1alpha1.ReasonOverlaps},
		"new service":                 {address: "10.60.0.1", blocked: "node n has addresses of the same range, 10.60.0.1/32"},
		"route that is new":           {address: "10.9.0.1", accepted: []string{"10.60.0.0/16"}, blocked: "route 10.9.0.0/16 is not set in pods"},
		"route with another reason":   {address: "10.9.0.1", accepted: []string{"10.60.0.0/16"}, ready: v1alpha1.ReasonServiceForbidden, blocked: "route 10.9.0.0/16 is not set in pods"},
		"range with another reason":   {address: "10.60.0.1", ready: v1alpha1.ReasonChainLoop, blocked: "node n has addresses of the same range"},
		"range that is said accepted": {address: "10.60.0.1", ready: v1alpha1.ReasonAsAsked, blocked: "node n has addresses of the same range"},
		"links of a former service":   {address: "10.60.0.1", maker: v1alpha1.MakerOperator, blocked: "node n has addresses of the same range"},
		"route in a link of a hub":    {address: "10.9.0.1", maker: v1alpha1.MakerFederator, blocked: "route 10.9.0.0/16 is not set in pods"},
	} {
		t.Run(name, func(t *testing.T) {
			service := &v1alpha1.TSNService{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "plant", Generation: 2},
				Spec: v1alpha1.TSNServiceSpec{IPv4: &v1alpha1.LinkRange{LinkCIDR: "10.60.0.0/16"}, Routes: []v1alpha1.ServiceRoute{{To: "10.9.0.0/16", Behind: v1alpha1.BehindEndpoint}}}}
			service.Status.Accepted = test.accepted
			if test.ready != "" {
				service.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: test.ready, ObservedGeneration: 2}}
			}
			other := &v1alpha1.TSNService{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "other"}, Spec: v1alpha1.TSNServiceSpec{IPv4: &v1alpha1.LinkRange{LinkCIDR: "10.61.0.0/16"},
				Routes: []v1alpha1.ServiceRoute{{To: "10.60.0.0/24"}, {To: "10.9.0.0/24"}}}}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeInternalIP, Address: test.address}}}}
			if test.podCIDR != "" {
				node.Spec.PodCIDRs = []string{test.podCIDR}
			}
			n := inCluster(t, service, other, node)
			if test.maker != "" {
				link := &v1alpha1.TSNLink{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "l", Generation: 2, Labels: map[string]string{v1alpha1.LinkMakerLabel: test.maker}}}
				link.Spec.Service, link.Spec.Client.Addresses, link.Spec.Client.Routes = "plant", []string{"10.60.0.0/31"}, []string{"10.9.0.0/16"}
				link.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
				must(t, n.Client.Create(t.Context(), link))
			}
			events := record.NewFakeRecorder(10)
			r := newLinks(n.shared, n.Client, "kubernetsn", events, nil)
			for range 2 { // the second time without an Event
				in, err := r.collectInput(t.Context())
				must(t, err)
				plan := links.Plan(in)
				text := overlaps(plan, "default", "plant")
				if test.blocked == "" && text != "" || !strings.Contains(text, test.blocked) {
					t.Errorf("the service reports %q, want %q", text, test.blocked)
				}
				if text := overlaps(plan, "other", "other"); text == "" {
					t.Error("another service has addresses of the node")
				}
			}
			if got := len(events.Events); (got == 1) != (test.blocked == "") || got > 1 {
				t.Fatalf("the node has %d Events", got)
			}
			if test.blocked == "" {
				if text := <-events.Events; !strings.Contains(text, "Warning Overlaps the node has 10.") || !strings.Contains(text, "TSNService default/plant had addresses of that range before") {
					t.Errorf("the Event is %q", text)
				}
			}
		})
	}
}

// overlaps returns what a plan finds of addresses that a service may not have.
func overlaps(plan *links.Result, namespace, name string) string {
	var texts []string
	for _, finding := range plan.Services[links.Key{Namespace: namespace, Name: name}].Findings {
		if finding.Reason == v1alpha1.ReasonOverlaps {
			texts = append(texts, finding.Text)
		}
	}
	return strings.Join(texts, "; ")
}

// TestRefusedClaimMessageStable lists services in random order, like a cache: a changed message would be a new Event.
func TestRefusedClaimMessageStable(t *testing.T) {
	accepted := func(name string, ranges ...string) v1alpha1.TSNService {
		return v1alpha1.TSNService{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Status: v1alpha1.TSNServiceStatus{Accepted: ranges}}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.42.7.0/24"}}}
	nodes := &nodeSet{all: map[string]*corev1.Node{"n": node}}
	services := []v1alpha1.TSNService{accepted("a", "10.42.7.128/25", "10.42.7.0/25"), accepted("b", "10.42.0.0/16")}
	c := clusterRanges{listed: time.Now()}
	for range 2 {
		_, refused, err := c.reserved(t.Context(), nil, nodes, services, c.listed)
		if want := "TSNService default/a had addresses of that range before: 10.42.7.0/25;"; err != nil || !strings.Contains(refused["n"], want) {
			t.Errorf("the message is %q (%v), want %q", refused["n"], err, want)
		}
		slices.Reverse(services)
	}
}
