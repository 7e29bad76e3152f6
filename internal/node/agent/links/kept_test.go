// SPDX-License-Identifier: Apache-2.0

package links

import (
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/linkprobe"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
)

// fakeProber returns the finding of the test.
type fakeProber struct {
	finding linkprobe.Finding
	watched *linkprobe.Target
}

func (p *fakeProber) Watch(_ string, target *linkprobe.Target) { p.watched = target }
func (p *fakeProber) Forget(string)                            { p.watched = nil }
func (p *fakeProber) Finding(string) (linkprobe.Finding, bool) { return p.finding, p.watched != nil }

func TestReconcileProbesKeptLink(t *testing.T) {
	for what, test := range map[string]struct {
		finding linkprobe.Finding
		says    string
	}{
		"no answer is due yet": {},
		"it answers":           {finding: linkprobe.Finding{Up: true, MTU: 1413}},
		"it does not":          {finding: linkprobe.Finding{Message: "10.0.0.1 does not answer"}, says: "a Up False: 10.0.0.1 does not answer"},
	} {
		link := newLink("a", "", unknown)
		link.Spec.Client, link.Spec.Endpoint = link.Spec.Endpoint, link.Spec.Client
		link.Spec.Client.Addresses, link.Spec.Endpoint.Node = []string{"10.0.0.0/31"}, "m"
		for _, name := range []string{v1alpha1.ConditionClientPlugged, v1alpha1.ConditionEndpointPlugged, v1alpha1.ConditionUp} {
			meta.SetStatusCondition(&link.Status.Conditions, metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: "Former"})
		}
		end := &link.Spec.Client
		kept := attachment.Plugged{Sandbox: attachment.Sandbox{Identity: end.UID, ContainerID: "c1"}, Interface: end.Interface, VNI: uint32(link.Spec.VNI), MTU: 1413}
		kept.Link.Addresses, _ = prefixes("addresses", end.Addresses)
		kept.Link.Peer.Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.1")}
		r, cluster := newTestReconciler(t, &fakePlugin{plugged: []attachment.Plugged{kept}}, link)
		prober := &fakeProber{finding: test.finding}
		r.Prober = prober
		reconcileAll(t, r)
		if prober.watched == nil || prober.watched.Peer != kept.Link.Peer.Addresses[0] {
			t.Fatalf("%s: it asks %v", what, prober.watched)
		}
		statuses := strings.Join(cluster.statuses, "; ")
		if !strings.Contains(statuses, test.says) || (statuses == "") != (test.says == "") || strings.Contains(statuses, "ClientPlugged False") {
			t.Errorf("%s: it says %q", what, statuses)
		}
	}
}
