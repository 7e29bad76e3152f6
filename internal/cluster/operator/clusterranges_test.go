// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
)

// TestANodeTakesNoAddressesOfAService has a node say that addresses of services are its own. It succeeds only where the operator has not accepted them.
func TestANodeTakesNoAddressesOfAService(t *testing.T) {
	for name, test := range map[string]struct {
		address, podCIDR string
		ready            *metav1.Condition
		linked           bool
		blocked          string
	}{
		"address of an accepted service":   {address: "10.60.0.1", ready: &metav1.Condition{Reason: v1alpha1.ReasonAsAsked, ObservedGeneration: 2}},
		"podCIDR around it":                {podCIDR: "10.0.0.0/8", ready: &metav1.Condition{Reason: v1alpha1.ReasonNoEndpoint, ObservedGeneration: 2}},
		"route of an accepted service":     {address: "10.9.0.1", ready: &metav1.Condition{Reason: v1alpha1.ReasonAsAsked, ObservedGeneration: 2}},
		"route of a link":                  {address: "10.9.0.1", ready: &metav1.Condition{Reason: v1alpha1.ReasonOverlaps, ObservedGeneration: 2}, linked: true},
		"address of a service with links":  {address: "10.60.0.1", linked: true},
		"address of a new service":         {address: "10.60.0.1", blocked: "node n has addresses of the same range, 10.60.0.1/32"},
		"route that is not looked at yet":  {address: "10.9.0.1", ready: &metav1.Condition{Reason: v1alpha1.ReasonAsAsked, ObservedGeneration: 1}, blocked: "route 10.9.0.0/16 is set in no pod"},
		"address that the service may not": {address: "10.60.0.1", ready: &metav1.Condition{Reason: v1alpha1.ReasonOverlaps, ObservedGeneration: 2}, blocked: "node n has addresses of the same range"},
	} {
		t.Run(name, func(t *testing.T) {
			service := &v1alpha1.TSNService{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "plant", Generation: 2},
				Spec: v1alpha1.TSNServiceSpec{IPv4: &v1alpha1.LinkRange{LinkCIDR: "10.60.0.0/16"}, Routes: []v1alpha1.ServiceRoute{{To: "10.9.0.0/16", Behind: v1alpha1.BehindEndpoint}}}}
			if test.ready != nil {
				test.ready.Type = v1alpha1.ConditionReady
				service.Status.Conditions = []metav1.Condition{*test.ready}
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeInternalIP, Address: test.address}}}}
			if test.podCIDR != "" {
				node.Spec.PodCIDRs = []string{test.podCIDR}
			}
			n := inCluster(t, service, node)
			if test.linked {
				link := &v1alpha1.TSNLink{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "l", Labels: map[string]string{v1alpha1.LinkMakerLabel: v1alpha1.MakerOperator}}}
				link.Spec.Service, link.Spec.Client.Routes = "plant", []string{"10.9.0.0/16"}
				if err := n.Client.Create(t.Context(), link); err != nil {
					t.Fatal(err)
				}
			}
			events := record.NewFakeRecorder(10)
			r := newLinks(n.shared, n.Client, "kubernetsn", events, nil)
			for range 2 { // the second time without an Event
				in, err := r.input(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				var texts []string
				for _, found := range links.Plan(in).Services[links.Key{Namespace: "default", Name: "plant"}].Found {
					if found.Reason == v1alpha1.ReasonOverlaps {
						texts = append(texts, found.Text)
					}
				}
				text := strings.Join(texts, "; ")
				if test.blocked == "" && text != "" || !strings.Contains(text, test.blocked) {
					t.Errorf("the service reports %q, want %q", text, test.blocked)
				}
			}
			if got := len(events.Events); (got == 1) != (test.blocked == "") || got > 1 {
				t.Fatalf("the node has %d Events", got)
			}
			if test.blocked == "" {
				if said := <-events.Events; !strings.Contains(said, "Warning Overlaps the node has 10.") || !strings.Contains(said, "TSNService default/plant had addresses of that before") {
					t.Errorf("the Event is %q", said)
				}
			}
		})
	}
}
