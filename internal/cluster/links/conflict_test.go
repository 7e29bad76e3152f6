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

// ofNode has a node report a range as its own.
func (w *world) ofNode(text string) {
	w.Reserved = append(w.Reserved, Reserved{Range: netip.MustParsePrefix(text), What: "node n", OfNode: true})
}

// report carries a plan out and writes its status, with the reason of the first finding, as the operator does.
func (w *world) report() *Result {
	plan := w.round()
	for i := range w.Services {
		service := &w.Services[i]
		servicePlan := plan.Services[keyOf(service)]
		reason := v1alpha1.ReasonAsAsked
		if len(servicePlan.Findings) > 0 {
			reason = servicePlan.Findings[0].Reason
		}
		service.Status = servicePlan.Status
		service.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: reason, ObservedGeneration: service.Generation}}
	}
	return plan
}

// TestConflictWithNodes has services that ask for addresses which nodes have already. Whatever else is reported, they are not accepted, at the
// next plans neither.
func TestConflictWithNodes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *world, service *v1alpha1.TSNService)
		want   []string
		ready  string
	}{
		"range": {func(w *world, _ *v1alpha1.TSNService) { w.ofNode("10.200.7.1/32") }, []string{"10.9.0.0/16"}, v1alpha1.ReasonOverlaps},
		"route": {func(w *world, _ *v1alpha1.TSNService) { w.ofNode("10.9.0.5/32") }, []string{"10.200.0.0/16"}, v1alpha1.ReasonOverlaps},
		"route of a service with a pod of both labels": {func(w *world, _ *v1alpha1.TSNService) {
			w.ofNode("10.9.0.5/32")
			w.middle("node0", "s", "")
		}, []string{"10.200.0.0/16"}, v1alpha1.ReasonServiceForbidden},
		"range of services that wait for each other": {func(w *world, _ *v1alpha1.TSNService) {
			w.ofNode("10.200.7.1/32")
			w.ofNode("10.201.7.1/32")
			w.Services = append(w.Services, newService("t", "10.201.0.0/16"))
			w.add("node0", map[string]string{v1alpha1.ClientLabelPrefix + "s": "up", v1alpha1.EndpointLabelPrefix + "t": "down"})
			w.add("node0", map[string]string{v1alpha1.ClientLabelPrefix + "t": "up", v1alpha1.EndpointLabelPrefix + "s": "down"})
		}, []string{"10.9.0.0/16"}, v1alpha1.ReasonChainLoop},
		"range of a service that took the place of another": {func(w *world, service *v1alpha1.TSNService) {
			w.endpoint("node0", "s")
			w.client("node0", "s")
			w.report()
			w.ofNode("10.0.0.1/32")
			*service = newService("s", "10.0.0.0/8") // with the links of the former one
		}, nil, v1alpha1.ReasonOverlaps},
		"route in a link of a hub that was admitted without it": {func(w *world, _ *v1alpha1.TSNService) {
			w.ofNode("10.9.0.5/32")
			hub, first, _ := admittedWorld()
			hub.Reserved = w.Reserved
			w.Input = hub.Input
			first.Generation = 2
			first.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
		}, []string{"10.200.0.0/24"}, v1alpha1.ReasonOverlaps},
		"invalid selector": {func(w *world, service *v1alpha1.TSNService) {
			w.ofNode("10.9.0.5/32")
			w.report()
			service.Spec.Endpoint = &metav1.LabelSelector{MatchLabels: map[string]string{"-": "-"}}
		}, []string{"10.200.0.0/16"}, v1alpha1.ReasonSelectorInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1)
			w.Services = []v1alpha1.TSNService{newService("s", "10.200.0.0/16")}
			w.Services[0].Spec.Routes = []v1alpha1.ServiceRoute{{To: "10.9.0.0/16"}}
			test.change(w, &w.Services[0])
			for range 3 {
				plan := w.report()
				if got := w.Services[0].Status.Accepted; !slices.Equal(got, test.want) {
					t.Fatalf("accepted are %q, want %q", got, test.want)
				}
				if got := w.Services[0].Status.Conditions[0].Reason; got != test.ready {
					t.Errorf("the reason is %s, want %s", got, test.ready)
				}
				for _, admission := range plan.Admitted {
					if admission.Link.Name == "first-hub" && (admission.Refusal == nil || !strings.Contains(admission.Refusal.Error(), "node n has addresses of route 10.9.0.0/16")) {
						t.Errorf("link %s is refused: %v", admission.Link.Name, admission.Refusal)
					}
				}
			}
		})
	}
}

// TestAcceptedRangesAreKept has a node report addresses of a service after it was accepted, before and after it has links.
func TestAcceptedRangesAreKept(t *testing.T) {
	w := newWorld(1)
	w.Services = []v1alpha1.TSNService{newService("s", "10.200.0.0/16"), newService("other", "10.201.0.0/16")}
	service := &w.Services[0]
	service.Spec.Routes = []v1alpha1.ServiceRoute{{To: "10.9.0.0/16"}}
	w.report()
	w.ofNode("10.200.0.0/12") // of the range
	w.ofNode("10.9.0.5/32")
	service.Spec.Routes = append(service.Spec.Routes, v1alpha1.ServiceRoute{To: "10.8.0.0/15"})
	w.Services[1].Spec.Routes = []v1alpha1.ServiceRoute{{To: "10.9.0.0/24"}, {To: "10.200.1.0/24"}}
	w.endpoint("node0", "s")
	w.client("node0", "s")
	for range 3 {
		w.report()
		if want := []string{"10.200.0.0/16", "10.9.0.0/16"}; !slices.Equal(service.Status.Accepted, want) {
			t.Errorf("accepted are %q, want %q", service.Status.Accepted, want)
		}
		if got := w.Services[1].Status.Accepted; !slices.Equal(got, []string{"10.201.0.0/16"}) {
			t.Errorf("accepted of another service are %q", got)
		}
	}
	if len(w.Links) != 1 || !slices.Equal(w.Links[0].Spec.Client.Routes, []string{"10.9.0.0/16"}) {
		t.Errorf("the links are %+v", w.Links)
	}
	w.Services = append(w.Services, newService("older", "10.200.7.0/24"))
	service = &w.Services[0] // elsewhere now
	older := &w.Services[2]
	older.CreationTimestamp = metav1.NewTime(service.CreationTimestamp.Add(-time.Hour))
	if w.report(); service.Status.Conditions[0].Reason != v1alpha1.ReasonOverlaps || !slices.Contains(service.Status.Accepted, "10.200.0.0/16") {
		t.Errorf("beside an older service with the range the status is %+v", service.Status)
	}
	hub, _, _ := admittedWorld()
	hub.Services[0].Status.Accepted = []string{"10.200.0.0/24", "10.9.0.0/16"}
	hub.ofNode("10.200.0.0/31")
	hub.ofNode("10.9.0.5/32")
	for _, admission := range Plan(&hub.Input).Admitted {
		if admission.Refusal != nil {
			t.Errorf("link %s of a hub: %v", admission.Link.Name, admission.Refusal)
		}
	}
}
