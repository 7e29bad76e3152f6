// SPDX-License-Identifier: Apache-2.0

package services

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/linkledger"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// fleet is a service over clusters with pods; the clusters may be silent or report falsely.
type fleet struct {
	*testing.T
	*rand.Rand
	view

	service  *tsn.TSNService
	now      time.Time
	failed   links.Failures
	podCount int
	has      map[string]string
	// gone is when links were deleted, by their numbers, addresses and clients.
	gone map[string]time.Time
}

func newFleet(t *testing.T, source *rand.Rand) *fleet {
	t.Helper()
	f := &fleet{T: t, Rand: source, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), has: map[string]string{}, gone: map[string]time.Time{}}
	f.service = &tsn.TSNService{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "plant"}}
	f.service.Spec.IPv4 = &tsn.LinkRange{LinkCIDR: "10.60.0.0/20"}
	f.service.Spec.Limits = &tsn.LinkLimits{LinksPerEndpoint: int32(1 + source.IntN(3))}
	f.override, f.reports = &policyv1alpha1.OverridePolicy{}, map[string]report{}
	for number := range 2 + source.IntN(3) {
		cluster := v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", number)}}
		f.clusters = append(f.clusters, cluster)
		f.hear(number, true)
		f.reports[cluster.Name] = report{Applied: true, HasStatus: true}
	}
	return f
}

// hear sets whether the hub receives reports of a cluster.
func (f *fleet) hear(number int, seen bool) {
	ready := metav1.Condition{Type: v1alpha1.ClusterConditionReady, Status: metav1.ConditionUnknown, LastTransitionTime: metav1.NewTime(f.now)}
	if seen {
		ready.Status = metav1.ConditionTrue
	}
	f.clusters[number].Status.Conditions = []metav1.Condition{ready}
}

// change makes one random change. The last cluster reports falsely.
func (f *fleet) change() {
	f.now = f.now.Add(time.Duration(f.IntN(40)) * time.Second)
	number := f.IntN(len(f.clusters))
	name := f.clusters[number].Name
	report := f.reports[name]
	f.podCount++
	pod := tsn.ServicePod{Namespace: "ns", Pod: fmt.Sprintf("pod%d", f.podCount), UID: fmt.Sprintf("uid%d", f.podCount), Node: fmt.Sprintf("n%d", f.IntN(2)), Interface: "bus0"}
	pod.NodeAddress = fmt.Sprintf("192.0.%d.%s", number, pod.Node[1:]+"1")
	switch f.IntN(8) {
	case 0, 1:
		f.has[pod.UID] = name
		report.Status.Wants = append(report.Status.Wants, pod)
	case 2, 3:
		f.has[pod.UID], pod.Interface = name, "line"
		report.Status.Offers = append(report.Status.Offers, pod)
	case 4:
		report.HasStatus = !report.HasStatus
	case 5:
		f.hear(number, f.silence(name, f.now) > 0)
	case 6:
		report.Status.Wants, report.Status.Offers = less(f, report.Status.Wants), less(f, report.Status.Offers)
	default:
		f.lie()
		return
	}
	slices.SortFunc(report.Status.Wants, func(a, b tsn.ServicePod) int { return compare(&a, &b) })
	f.reports[name] = report
}

func less(f *fleet, pods []tsn.ServicePod) []tsn.ServicePod {
	if len(pods) == 0 {
		return pods
	}
	at := f.IntN(len(pods))
	delete(f.has, pods[at].UID) // what a cluster gives up is free
	return slices.Delete(slices.Clone(pods), at, at+1)
}

// lie makes the last cluster report pods and nodes of another one, as far as links name them.
func (f *fleet) lie() {
	if len(f.links) == 0 {
		return
	}
	liar := f.clusters[len(f.clusters)-1].Name
	end := f.links[f.IntN(len(f.links))].Spec.Endpoint
	if end.Cluster == liar {
		return
	}
	pod := remembered(&end)
	pod.Interface = "line"
	if f.IntN(2) == 0 {
		pod.UID = "stolen-node"
	}
	report := f.reports[liar]
	report.Status.Offers = append(report.Status.Offers, pod)
	f.reports[liar] = report
}

// round plans and applies the plan; links are up at once.
func (f *fleet) round() *pairing {
	p := newPlan(f.service, &f.view)
	created := pair(f.service, p, &f.view, f.failed, f.now)
	f.failed = created.failed
	for _, removal := range created.remove {
		f.released = append(f.released, *removal.Link)
		for _, what := range append(given(removal.Link), linkledger.ClientOfLink(removal.Link)) {
			f.gone[what] = f.now
		}
	}
	f.replaced = map[string]bool{}
	for what, at := range f.gone {
		f.replaced[what] = f.now.Sub(at) < 2*linkledger.ReleaseRetention
	}
	f.released = slices.DeleteFunc(f.released, func(link tsn.TSNLink) bool { return f.now.Sub(f.gone[given(&link)[0]]) >= linkledger.ReleaseRetention })
	f.links = slices.DeleteFunc(slices.Clone(f.links), func(link tsn.TSNLink) bool { return leaves(created.remove, &link) })
	for i := range created.change {
		for j := range f.links {
			if f.links[j].Name == created.change[i].Name {
				f.links[j].Spec = created.change[i].Spec
			}
		}
	}
	for i := range created.create {
		link := created.create[i]
		f.makes(&link)
		for _, kind := range []string{tsn.ConditionClientPlugged, tsn.ConditionUp} {
			link.Status.Conditions = append(link.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(f.now)})
		}
		f.links = append(f.links, link)
	}
	return created
}

// given returns the number and the addresses of a link.
func given(link *tsn.TSNLink) []string {
	return append([]string{strconv.Itoa(int(link.Spec.VNI))}, link.Spec.Client.Addresses...)
}

// makes checks that a new link's numbers are free at its nodes.
func (f *fleet) makes(link *tsn.TSNLink) {
	for _, what := range given(link) {
		if at, was := f.gone[what]; was && f.now.Sub(at) < linkledger.ReleaseRetention {
			f.Fatalf("a link has %s, which another had %v ago", what, f.now.Sub(at))
		}
	}
}

// settle repeats rounds until nothing changes: what a deleted link releases is used in the next round.
func (f *fleet) settle(t *testing.T) {
	t.Helper()
	for range 8 {
		pairing := f.round()
		f.holds(t)
		if len(pairing.create)+len(pairing.change)+len(pairing.remove) == 0 {
			return
		}
	}
	t.Fatal("it does not come to an end")
}

// holds checks the rules.
func (f *fleet) holds(t *testing.T) {
	t.Helper()
	vnis, addresses, interfaces, clients := map[int32]bool{}, map[string]bool{}, map[[2]string]bool{}, map[string]bool{}
	hub := netip.MustParsePrefix("10.60.0.0/26")
	for i := range f.links {
		spec := &f.links[i].Spec
		if vnis[spec.VNI] || spec.VNI < 0xff0000 {
			t.Fatalf("number %#x is there twice, or is not the hub's", spec.VNI)
		}
		vnis[spec.VNI] = true
		if clients[spec.Client.UID] {
			t.Fatalf("%s has two links", spec.Client.Pod)
		}
		clients[spec.Client.UID] = true
		for _, end := range []*tsn.LinkEnd{&spec.Client, &spec.Endpoint} {
			if has := f.has[end.UID]; has != "" && has != end.Cluster {
				t.Fatalf("%s is linked as one of cluster %s, and is one of %s", end.Pod, end.Cluster, has)
			}
			if end.UID == "stolen-node" && f.owned(end.NodeAddress, end.Cluster) {
				t.Fatalf("cluster %s has a link at %s, where another's node is", end.Cluster, end.NodeAddress)
			}
			prefix := netip.MustParsePrefix(end.Addresses[0])
			if at := [2]string{end.UID, end.Interface}; interfaces[at] || addresses[end.Addresses[0]] || !hub.Contains(prefix.Addr()) {
				t.Fatalf("%s has interface %s and address %s twice, or not of the hub's part", end.Pod, end.Interface, prefix)
			}
			interfaces[[2]string{end.UID, end.Interface}], addresses[end.Addresses[0]] = true, true
		}
	}
}

// owned reports whether another cluster has a link at an address.
func (f *fleet) owned(address, but string) bool {
	return slices.ContainsFunc(f.links, func(link tsn.TSNLink) bool {
		return link.Spec.Client.NodeAddress == address && link.Spec.Client.Cluster != but || link.Spec.Endpoint.NodeAddress == address && link.Spec.Endpoint.Cluster != but
	})
}

func TestRulesHoldForAnyReports(t *testing.T) {
	for seed := range uint64(50) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			f := newFleet(t, rand.New(rand.NewPCG(seed, 28)))
			for range 60 {
				f.change()
				f.settle(t)
			}
		})
	}
}

func TestSilenceAndFalseReportsKeepLinks(t *testing.T) {
	for seed := range uint64(50) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			f := newFleet(t, rand.New(rand.NewPCG(seed, 29)))
			for range 20 {
				f.change()
				f.settle(t)
			}
			for number := range f.clusters {
				report := f.reports[f.clusters[number].Name]
				report.HasStatus = f.IntN(2) == 0 && report.HasStatus
				f.reports[f.clusters[number].Name] = report
				if f.IntN(2) == 0 {
					f.hear(number, false)
				}
			}
			f.lie()
			f.now = f.now.Add(time.Hour)
			if pairing := f.round(); len(pairing.remove) > 0 {
				t.Errorf("removed %s: %s", pairing.remove[0].Link.Name, pairing.remove[0].Why)
			}
		})
	}
}

func TestLinkIsRemovedWhenClusterLeaves(t *testing.T) {
	for name, leave := range map[string]func(f *fleet){
		"it shall leave": func(f *fleet) { f.clusters[1].Annotations = map[string]string{federation.LeavingAnnotation: "true"} },
		"it has left":    func(f *fleet) { f.clusters = f.clusters[:1] },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, rand.New(rand.NewPCG(1, 28)))
			f.clusters = f.clusters[:2]
			f.report("c0", false, "arm")
			f.report("c1", true, "plc")
			f.settle(t)
			if len(f.links) != 1 {
				t.Fatalf("there are %d links", len(f.links))
			}
			leave(f)
			if pairing := f.round(); len(pairing.remove) != 1 || len(pairing.create) > 0 || len(f.links) > 0 {
				t.Errorf("%d were removed and %d made", len(pairing.remove), len(pairing.create))
			}
		})
	}
}

// report sets the pods that a cluster reports: as endpoints, or as clients that want links.
func (f *fleet) report(cluster string, offer bool, names ...string) {
	report := f.reports[cluster]
	var pods []tsn.ServicePod
	for _, name := range names {
		f.has["uid-"+name] = cluster
		pods = append(pods, tsn.ServicePod{Namespace: "ns", Pod: name, UID: "uid-" + name, Node: "node", NodeAddress: "192.0.2.1" + cluster[1:], Interface: "bus"})
	}
	if offer {
		report.Status.Offers = pods
	} else {
		report.Status.Wants = pods
	}
	f.reports[cluster] = report
}
