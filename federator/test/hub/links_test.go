// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// want returns a client of the service's namespace that its cluster cannot link; offer returns an endpoint.
func (s *served) want(pod, address string) tsn.ServicePod {
	return tsn.ServicePod{Namespace: s.namespace, Pod: pod, UID: "uid-" + pod, Node: "node", NodeAddress: address, Interface: "bus0", MTU: 1450}
}

func (s *served) offer(pod, address string) tsn.ServicePod {
	want := s.want(pod, address)
	want.Interface, want.MTU = "line", 1390
	return want
}

func wants(pods ...tsn.ServicePod) tsn.TSNServiceStatus  { return tsn.TSNServiceStatus{Wants: pods} }
func offers(pods ...tsn.ServicePod) tsn.TSNServiceStatus { return tsn.TSNServiceStatus{Offers: pods} }

// links returns the links of the service by the client's pod and the hop.
func (s *served) links() map[string]tsn.TSNLink {
	s.t.Helper()
	var list tsn.TSNLinkList
	if err := admin.List(context.Background(), &list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	links := map[string]tsn.TSNLink{}
	for _, link := range list.Items {
		if link.Spec.Service == s.service {
			links[link.Spec.Client.Pod] = link
		}
	}
	return links
}

// linked waits until a client is linked to an endpoint, and returns the link.
func (s *served) linked(pod, endpoint string) tsn.TSNLink {
	s.t.Helper()
	defer func() {
		if s.t.Failed() {
			service := &tsn.TSNService{}
			err := admin.Get(context.Background(), types.NamespacedName{Namespace: s.namespace, Name: s.service}, service)
			s.t.Logf("the service says %+v, %v", service.Status, err)
		}
	}()
	eventually(s.t, pod+" is linked to "+endpoint, func() bool { return s.links()[pod].Spec.Endpoint.Pod == endpoint })
	return s.links()[pod]
}

// stays checks for a while that a client's link does not change.
func (s *served) stays(link *tsn.TSNLink) {
	s.t.Helper()
	for range 10 {
		time.Sleep(100 * time.Millisecond)
		if now := s.links()[link.Spec.Client.Pod]; now.UID != link.UID {
			s.t.Fatalf("the link to %s of cluster %s became one to %s of cluster %s", link.Spec.Endpoint.Pod, link.Spec.Endpoint.Cluster, now.Spec.Endpoint.Pod, now.Spec.Endpoint.Cluster)
		}
	}
}

// plugged returns the status of a link that the cluster of an end reports.
func plugged(kinds ...string) tsn.TSNLinkStatus {
	var status tsn.TSNLinkStatus
	for _, kind := range kinds {
		status.Conditions = append(status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Plugged", LastTransitionTime: metav1.Now()})
	}
	return status
}

// silence makes a cluster silent since some time ago.
func silence(t *testing.T, cluster string, since time.Duration) {
	t.Helper()
	var member v1alpha1.Cluster
	get(t, "", cluster, &member)
	member.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ClusterConditionReady, Status: metav1.ConditionUnknown, Reason: "Silent",
		LastTransitionTime: metav1.NewTime(time.Now().Add(-since))}}
	if err := admin.Status().Update(context.Background(), &member); err != nil {
		t.Fatal(err)
	}
}

func TestClientIsLinkedToOtherCluster(t *testing.T) {
	s := newServed(t, 3, func(service *tsn.TSNService) {
		service.Spec.IPv4.LinkCIDR = "10.94.0.0/16"
		service.Spec.Encryption = tsn.EncryptionPreferred
	})
	east, west := s.clusters[0], s.clusters[1]
	s.report(map[string]tsn.TSNServiceStatus{east: wants(s.want("arm", "192.0.2.1")), west: offers(s.offer("plc", "192.0.2.2")), s.clusters[2]: {}})
	link := s.linked("arm", "plc")
	spec := link.Spec
	if spec.VNI < 0xff0000 || spec.MTU != 1390 || spec.Encryption != tsn.EncryptionPreferred || spec.Client.Cluster != east || spec.Endpoint.Cluster != west ||
		spec.Client.Node != "node" || spec.Endpoint.NodeAddress != "192.0.2.2" || spec.Client.Interface != "bus0" || spec.Endpoint.Interface != "line5000" ||
		!slices.Equal(spec.Client.Addresses, []string{"10.94.0.0/31"}) || !slices.Equal(spec.Endpoint.Addresses, []string{"10.94.0.1/31"}) {
		t.Errorf("the link is %+v", spec)
	}
	if link.Labels[tsn.LinkMakerLabel] != tsn.MakerFederator || link.Labels[tsn.ServiceLabel] != s.service {
		t.Errorf("its labels are %v", link.Labels)
	}
	eventually(t, "it is on the two clusters and on no other", func() bool { return slices.Equal(s.placedBy("kubernetsn-link-"+link.Name), []string{east, west}) })

	// Each cluster reports its own end, and may write anything about the other.
	s.k.sayOf("TSNLink", link.Name, west, plugged(tsn.ConditionEndpointPlugged, tsn.ConditionUp))
	eventually(t, "the endpoint is plugged", func() bool { return s.isTrue(tsn.ConditionEndpointPlugged) })
	if s.isTrue(tsn.ConditionUp) {
		t.Error("the endpoint's cluster said that the link is up, and was believed")
	}
	s.k.sayOf("TSNLink", link.Name, east, plugged(tsn.ConditionClientPlugged, tsn.ConditionUp))
	eventually(t, "the link is up", func() bool {
		return s.isTrue(tsn.ConditionUp) && s.isTrue(tsn.ConditionClientPlugged) && s.isTrue(tsn.ConditionEndpointPlugged)
	})
	now := s.links()["arm"]
	s.stays(&now)

	// When the client is gone, the link is deleted in both clusters.
	s.report(map[string]tsn.TSNServiceStatus{east: {}, west: offers(s.offer("plc", "192.0.2.2")), s.clusters[2]: {}})
	eventually(t, "the link is gone", func() bool { return len(s.links()) == 0 })
	s.removed(east, west)
}

// isTrue reports whether a condition of pod arm's link is true.
func (s *served) isTrue(kind string) bool {
	s.t.Helper()
	return meta.IsStatusConditionTrue(s.links()["arm"].Status.Conditions, kind)
}

// removed waits until clusters have removed a link, and fails if one keeps it.
func (s *served) removed(clusters ...string) {
	s.t.Helper()
	eventually(s.t, "the clusters have removed it", func() bool {
		removed, kept := s.k.becameOfLinks()
		if len(kept) > 0 {
			s.t.Fatalf("clusters %v kept it", kept)
		}
		return slices.Equal(removed, slices.Sorted(slices.Values(clusters)))
	})
}

func TestLostEndpointIsReplaced(t *testing.T) {
	s := newServed(t, 3, nil)
	east, west, south := s.clusters[0], s.clusters[1], s.clusters[2]
	client := wants(s.want("arm", "192.0.2.1"))
	s.report(map[string]tsn.TSNServiceStatus{east: client, west: offers(s.offer("plc", "192.0.2.2")), south: {}})
	link := s.linked("arm", "plc")
	// Without another endpoint it stays.
	s.report(map[string]tsn.TSNServiceStatus{east: client, west: {}, south: {}})
	s.stays(&link)
	s.report(map[string]tsn.TSNServiceStatus{east: client, west: {}, south: offers(s.offer("spare", "192.0.2.3"))})
	next := s.linked("arm", "spare")
	if next.Spec.Client.Interface != "bus0" || next.Spec.Endpoint.Cluster != south {
		t.Errorf("the link is %+v", next.Spec)
	}
	eventually(t, "it is on the clusters of its ends", func() bool { return slices.Equal(s.placedBy("kubernetsn-link-"+next.Name), []string{east, south}) })
	s.removed(east, west)
	// The returning endpoint does not take the client back.
	s.report(map[string]tsn.TSNServiceStatus{east: client, west: offers(s.offer("plc", "192.0.2.2")), south: offers(s.offer("spare", "192.0.2.3"))})
	s.stays(&next)
}

func TestSilenceRemovesNoLinks(t *testing.T) {
	s := newServed(t, 3, nil)
	east, west, south := s.clusters[0], s.clusters[1], s.clusters[2]
	all := map[string]tsn.TSNServiceStatus{east: wants(s.want("arm", "192.0.2.1")), west: offers(s.offer("plc", "192.0.2.2")), south: {}}
	s.report(all)
	link := s.linked("arm", "plc")
	s.k.sayOf("TSNLink", link.Name, east, plugged(tsn.ConditionClientPlugged, tsn.ConditionUp))
	eventually(t, "the link is up", func() bool { return s.isTrue(tsn.ConditionUp) })

	t.Run("nobody says anything", func(t *testing.T) {
		s.t = t
		s.report(map[string]tsn.TSNServiceStatus{})
		s.stays(&link)
		s.report(all)
	})
	t.Run("the endpoint's cluster is silent, and there is no other", func(t *testing.T) {
		s.t = t
		silence(t, west, 5*time.Minute)
		s.stays(&link)
	})
	all[south] = offers(s.offer("spare", "192.0.2.3"))
	t.Run("there is another, and the link is up", func(t *testing.T) {
		s.t = t
		s.report(all)
		s.stays(&link)
	})
	t.Run("it is silent since a moment, and the link is not up", func(t *testing.T) {
		s.t = t
		silence(t, west, 10*time.Second)
		s.k.sayOf("TSNLink", link.Name, east, plugged(tsn.ConditionClientPlugged))
		eventually(t, "the link is not up", func() bool { return !s.isTrue(tsn.ConditionUp) })
		s.stays(&link)
	})
	t.Run("the client's cluster is silent, too", func(t *testing.T) {
		s.t = t
		silence(t, east, 5*time.Minute)
		silence(t, west, 5*time.Minute)
		s.stays(&link)
	})
	s.t = t
	var member v1alpha1.Cluster
	get(t, "", east, &member)
	member.Status.Conditions[0].Status = metav1.ConditionTrue
	if err := admin.Status().Update(t.Context(), &member); err != nil {
		t.Fatal(err)
	}
	s.linked("arm", "spare")
}

func TestFalseReportsTakeNothing(t *testing.T) {
	// The hub's part of the usual range has 8 links, and released ones are held back.
	s := newServed(t, 3, func(service *tsn.TSNService) { service.Spec.IPv4.LinkCIDR = "10.89.0.0/16" })
	east, west, liar := s.clusters[0], s.clusters[1], s.clusters[2]
	honest := map[string]tsn.TSNServiceStatus{east: wants(s.want("arm", "192.0.2.1")), west: offers(s.offer("plc", "192.0.2.2")), liar: {}}
	s.report(honest)
	link := s.linked("arm", "plc")
	with := func(change func(*tsn.ServicePod)) tsn.ServicePod {
		lie := s.offer("lie", "192.0.2.66")
		change(&lie)
		return lie
	}
	for name, lie := range map[string]tsn.ServicePod{
		"address of another's node":  with(func(pod *tsn.ServicePod) { pod.NodeAddress = "192.0.2.1" }),
		"pod of another":             with(func(pod *tsn.ServicePod) { pod.UID = "uid-plc" }),
		"loopback":                   with(func(pod *tsn.ServicePod) { pod.NodeAddress = "127.0.0.1" }),
		"another namespace":          with(func(pod *tsn.ServicePod) { pod.Namespace = "kube-system" }),
		"no name":                    with(func(pod *tsn.ServicePod) { pod.Pod = "A B" }),
		"no interface":               with(func(pod *tsn.ServicePod) { pod.Interface = "a/b" }),
		"an element that is none":    with(func(pod *tsn.ServicePod) { pod.Element = "filter" }),
		"an MTU that cannot be":      with(func(pod *tsn.ServicePod) { pod.MTU = 12 }),
		"no UID":                     with(func(pod *tsn.ServicePod) { pod.UID = "" }),
		"a node that is no node":     with(func(pod *tsn.ServicePod) { pod.Node = "east/node" }),
		"an address with no meaning": with(func(pod *tsn.ServicePod) { pod.NodeAddress = "fe80::1" }),
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			all := maps.Clone(honest)
			// The liar's own valid pod is linked all the same.
			all[liar] = tsn.TSNServiceStatus{Offers: []tsn.ServicePod{lie}, Wants: []tsn.ServicePod{s.want("own", "192.0.2.66")}}
			s.report(all)
			eventually(t, "the condition names the pod", func() bool {
				degraded := s.condition(tsn.ConditionDegraded)
				return degraded.Status == metav1.ConditionTrue && strings.Contains(degraded.Message, "pods of cluster "+liar+" are not linked: pod ")
			})
			s.linked("own", "plc")
			if now := s.links()["arm"]; now.UID != link.UID {
				t.Errorf("the link of another cluster became %+v", now.Spec)
			}
			s.report(honest)
			eventually(t, "its link is gone", func() bool { return len(s.links()) == 1 })
		})
	}
}

func TestOlderClusterGetsUnlinkedAddress(t *testing.T) {
	s := newServed(t, 2, nil)
	thief := s.clusters[1]
	s.report(map[string]tsn.TSNServiceStatus{
		s.clusters[0]: offers(s.offer("plc", "192.0.2.2")), thief: {Offers: []tsn.ServicePod{s.offer("zzz", "192.0.2.2")}},
	})
	eventually(t, "the condition names both", func() bool {
		message := s.condition(tsn.ConditionDegraded).Message
		return strings.Contains(message, "of cluster "+thief) && strings.Contains(message, "the address 192.0.2.2 of a node of cluster "+s.clusters[0])
	})
}

func TestChainAcrossClusters(t *testing.T) {
	s := newServed(t, 3, func(service *tsn.TSNService) {
		service.Spec.IPv4.LinkCIDR = "10.93.0.0/16"
		service.Spec.Chain = []tsn.ChainElement{{Name: "filter", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "filter"}}, Forward: []string{"IPv4"}}}
		service.Spec.Routes = []tsn.ServiceRoute{{To: "10.9.0.0/16", Behind: "Endpoint"}, {To: "10.8.0.0/16", Behind: "Client"}}
	})
	east, west, south := s.clusters[0], s.clusters[1], s.clusters[2]
	filter := s.offer("filter", "192.0.2.3")
	filter.Element, filter.Interface, filter.Onward = "filter", "from", "on0"
	s.report(map[string]tsn.TSNServiceStatus{east: wants(s.want("arm", "192.0.2.1")), west: offers(s.offer("plc", "192.0.2.2")), south: offers(filter)})
	far := s.linked("filter", "plc")
	if _, early := s.links()["arm"]; early || far.Spec.Hop != 1 || far.Spec.Client.Interface != "on0" || far.Spec.Client.Cluster != south {
		t.Errorf("the first link of the chain is %+v", far.Spec)
	}
	s.k.sayOf("TSNLink", far.Name, south, plugged(tsn.ConditionClientPlugged, tsn.ConditionUp))
	near := s.linked("arm", "filter")
	if !slices.Equal(near.Spec.Client.Routes, []string{"10.9.0.0/16", "10.93.0.1/32"}) || !slices.Equal(near.Spec.Endpoint.Routes, []string{"10.8.0.0/16"}) ||
		!slices.Equal(near.Spec.Endpoint.Forward, []string{"IPv4"}) || near.Spec.Endpoint.Interface != "from5000" {
		t.Errorf("the link to the element is %+v", near.Spec)
	}
	eventually(t, "the endpoint has its way back", func() bool {
		back := s.links()["filter"].Spec.Endpoint.Routes
		return slices.Equal(back, []string{"10.8.0.0/16", "10.93.0.2/32"})
	})
	for link, clusters := range map[string][]string{far.Name: {south, west}, near.Name: {east, south}} {
		eventually(t, "each link is on the clusters of its ends", func() bool {
			return slices.Equal(s.placedBy("kubernetsn-link-"+link), slices.Sorted(slices.Values(clusters)))
		})
	}
}

func TestLinksAreRemovedWithService(t *testing.T) {
	s := newServed(t, 2, nil)
	s.report(map[string]tsn.TSNServiceStatus{s.clusters[0]: wants(s.want("arm", "192.0.2.1")), s.clusters[1]: offers(s.offer("plc", "192.0.2.2"))})
	link := s.linked("arm", "plc")
	for _, cluster := range s.clusters {
		eventually(t, "it is on both clusters", func() bool {
			work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-" + cluster, Name: s.namespace + "." + link.Name + "-tsnlink"}}
			return admin.Get(t.Context(), client.ObjectKeyFromObject(work), work) == nil
		})
	}
	if err := admin.Delete(t.Context(), &tsn.TSNService{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.service}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the link is gone", func() bool { return len(s.links()) == 0 })
	s.removed(s.clusters...)
}

func TestLinkNumbersAreUnique(t *testing.T) {
	s := newServed(t, 2, nil)
	first := s.service
	status := map[string]tsn.TSNServiceStatus{s.clusters[0]: wants(s.want("arm", "192.0.2.1")), s.clusters[1]: offers(s.offer("plc", "192.0.2.2"))}
	s.report(status)
	link := s.linked("arm", "plc")
	s.service = unique("other")
	s.make(s.service, nil)
	s.report(status)
	if two := s.linked("arm", "plc"); two.Spec.VNI == link.Spec.VNI || two.Spec.Endpoint.Interface != "line5000" {
		t.Errorf("links of %s and %s have the numbers %d and %d", first, s.service, link.Spec.VNI, two.Spec.VNI)
	}
}
