// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

func TestReleasedNumbersSurviveRestart(t *testing.T) {
	s := newServed(t, 2, func(service *tsn.TSNService) { service.Spec.IPv4.LinkCIDR = "10.90.0.0/16" })
	endpoint := offers(s.offer("plc", "192.0.2.2"))
	report := func(clients ...tsn.ServicePod) {
		t.Helper()
		s.report(map[string]tsn.TSNServiceStatus{s.clusters[0]: wants(clients...), s.clusters[1]: endpoint})
	}
	report(s.want("one", "192.0.2.1"), s.want("two", "192.0.2.1"))
	spec, two := s.linked("one", "plc").Spec, s.linked("two", "plc").Spec
	report(s.want("two", "192.0.2.1"))
	eventually(t, "the link is gone", func() bool { return len(s.links()) == 1 })
	had := []tsn.TSNLinkSpec{spec, two}
	held := func(pod string) {
		t.Helper()
		now := s.linked(pod, "plc").Spec
		for i := range had {
			if now.VNI == had[i].VNI || slices.Equal(now.Client.Addresses, had[i].Client.Addresses) {
				t.Errorf("%s has number %d and address %v, which %s had", pod, now.VNI, now.Client.Addresses, had[i].Client.Pod)
			}
		}
		had = append(had, now)
	}
	report(s.want("three", "192.0.2.1"), s.want("two", "192.0.2.1"))
	held("three")
	s.f.stop()
	s.f = startFederator(t)
	report(s.want("four", "192.0.2.1"), s.want("three", "192.0.2.1"), s.want("two", "192.0.2.1"))
	held("four")
}

func TestForeignLinkIsReported(t *testing.T) {
	s := newServed(t, 2, nil)
	all := map[string]tsn.TSNServiceStatus{s.clusters[0]: wants(s.want("arm", "192.0.2.1")), s.clusters[1]: offers(s.offer("plc", "192.0.2.2"))}
	s.report(all)
	link := s.linked("arm", "plc")
	s.report(map[string]tsn.TSNServiceStatus{s.clusters[0]: {}, s.clusters[1]: all[s.clusters[1]]})
	eventually(t, "the link is gone", func() bool { return len(s.links()) == 0 })
	foreign := &tsn.TSNLink{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: link.Name}, Spec: link.Spec}
	foreign.Spec.Service = "other"
	create(t, foreign)
	s.report(all)
	eventually(t, "the condition names it", func() bool {
		degraded := s.condition(tsn.ConditionDegraded)
		return degraded.Reason == "ForeignObject" && strings.Contains(degraded.Message, "pod "+s.namespace+"/arm of cluster "+s.clusters[0]+" is not linked: TSNLink "+
			s.namespace+"/"+link.Name+" was created by somebody else")
	})
	if err := admin.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	s.linked("arm", "plc")
}

func TestWatchSendsLinks(t *testing.T) {
	s := newServed(t, 2, nil)
	reported := watching(t, s.f, s.token, "?namespace="+s.namespace)
	s.report(map[string]tsn.TSNServiceStatus{s.clusters[0]: wants(s.want("arm", "192.0.2.1")), s.clusters[1]: offers(s.offer("plc", "192.0.2.2"))})
	link := s.linked("arm", "plc")
	eventually(t, "the watch tells of the link", func() bool {
		select {
		case text := <-reported:
			return strings.Contains(text, `"kind":"Link"`) && strings.Contains(text, link.Name) && strings.Contains(text, `"pod":"plc"`)
		default:
			return false
		}
	})
}
