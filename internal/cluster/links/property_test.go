// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// TestPlanProperties has random things happen to a cluster, some of which plans see only later, and holds each plan against
// the rules.
func TestPlanProperties(t *testing.T) {
	sequences, events := 60, 60
	if testing.Short() {
		sequences = 10
	}
	for seed := range sequences {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := randomWorld(rand.New(rand.NewPCG(uint64(seed), 28)))
			for range events {
				w.event()
				before := append([]v1alpha1.TSNLink(nil), w.Links...)
				plan := Plan(&w.Input)
				w.stays(t, plan, before)
				w.carryOut(plan)
				w.rules(t)
			}
			w.Now = w.Now.Add(time.Hour)
			for i := range w.Links {
				w.setUp(&w.Links[i], true)
			}
			w.settle(t)
			w.rules(t)
			w.complete(t)
		})
	}
}

type random struct {
	*world
	*rand.Rand
}

func randomWorld(source *rand.Rand) *random {
	w := &random{newWorld(1 + source.IntN(4)), source}
	for i, name := range []string{"plain", "chain"} {
		service := newService(name, fmt.Sprintf("10.%d.0.0/24", 200+i))
		service.Spec.Prefer = []string{v1alpha1.PreferSameNode, v1alpha1.PreferSameCluster, v1alpha1.PreferAny}[source.IntN(3)]
		service.Spec.Encryption = []string{"", v1alpha1.EncryptionNone, v1alpha1.EncryptionPreferred, v1alpha1.EncryptionRequired}[source.IntN(4)]
		service.Spec.Limits = &v1alpha1.LinkLimits{LinksPerEndpoint: int32(1 + source.IntN(6))}
		if source.IntN(2) == 0 {
			service.Spec.IPv6 = &v1alpha1.LinkRange{LinkCIDR: fmt.Sprintf("fd00:%d::/120", 200+i)}
		}
		if name == "chain" {
			for j := range 1 + source.IntN(2) {
				service.Spec.Chain = append(service.Spec.Chain, element(string(rune('a'+j))))
			}
		}
		w.Services = append(w.Services, service)
	}
	return w
}

// event is one thing that happens.
func (w *random) event() {
	w.Now = w.Now.Add(time.Duration(w.IntN(5)) * time.Second)
	if w.IntN(3) == 0 {
		w.Released = nil
	}
	node, service := fmt.Sprintf("node%d", w.IntN(len(w.Nodes))), w.Services[w.IntN(2)]
	switch w.IntN(13) {
	case 12:
		currentNode := w.Nodes[node]
		if currentNode.Keys = nil; w.IntN(4) > 0 {
			currentNode.Keys = &v1alpha1.LinkNodeKeys{Signature: fmt.Sprint(node, w.Uint64())}
		}
		w.Nodes[node] = currentNode
	case 0, 1, 2:
		w.client(node, service.Name)
	case 3, 4:
		w.endpoint(node, service.Name).Ready = w.IntN(3) > 0
	case 5, 6:
		if chain := w.Services[1].Spec.Chain; len(chain) > 0 {
			w.middle(node, "chain", chain[w.IntN(len(chain))].Name).Ready = w.IntN(4) > 0
		}
	case 7:
		currentNode := w.Nodes[node]
		currentNode.Ready = !currentNode.Ready || len(w.Nodes) == 1
		w.Nodes[node] = currentNode
	case 8:
		if len(w.Links) > 0 {
			link := &w.Links[w.IntN(len(w.Links))]
			w.setUp(link, !isUp(link))
		}
	default:
		w.podEvent()
	}
}

func (w *random) podEvent() {
	if len(w.Pods) == 0 {
		return
	}
	pod := &w.Pods[w.IntN(len(w.Pods))]
	switch w.IntN(5) {
	case 0:
		pod.Deleting, pod.Ready = true, false
	case 1:
		pod.Labels = nil
	case 2:
		w.removePod(pod.UID)
	default:
		pod.Ready = !pod.Ready
	}
}

// rules hold after each plan.
func (w *random) rules(t *testing.T) {
	t.Helper()
	vnis, pairs, names, slots := map[int32]bool{}, map[netip.Prefix]bool{}, map[string]bool{}, map[slot]bool{}
	interfaces, load := map[[2]string]bool{}, map[string]int32{}
	for i := range w.Links {
		spec := &w.Links[i].Spec
		at := slot{spec.Client.UID, int(spec.Hop)}
		if vnis[spec.VNI] || names[w.Links[i].Name] || slots[at] {
			t.Fatalf("two links have VNI %d, name %s or client %v", spec.VNI, w.Links[i].Name, at)
		}
		vnis[spec.VNI], names[w.Links[i].Name], slots[at] = true, true, true
		for j, text := range spec.Client.Addresses {
			pair, other := netip.MustParsePrefix(text), netip.MustParsePrefix(spec.Endpoint.Addresses[j])
			if pairs[pair.Masked()] || pair.Masked() != other.Masked() || pair == other {
				t.Fatalf("%s and %s are other links', or do not belong together", pair, other)
			}
			pairs[pair.Masked()] = true
		}
		for _, end := range []*v1alpha1.LinkEnd{&spec.Client, &spec.Endpoint} {
			if interfaces[[2]string{end.UID, end.Interface}] {
				t.Fatalf("pod %s has two interfaces %s", end.Pod, end.Interface)
			}
			interfaces[[2]string{end.UID, end.Interface}] = true
		}
		load[spec.Service+spec.Endpoint.UID]++
		if pod := w.pod(spec.Client.UID); pod == nil || pod.Labels[v1alpha1.ClientLabelPrefix+spec.Service] == "" {
			t.Fatalf("link %s has a client that is none", w.Links[i].Name)
		}
		if pod := w.pod(spec.Endpoint.UID); pod != nil && pod.Labels[v1alpha1.EndpointLabelPrefix+spec.Service] == "" {
			t.Fatalf("link %s has an endpoint that is none", w.Links[i].Name)
		}
	}
	w.keysAreThere(t)
	for at, count := range load {
		for _, service := range w.Services {
			if at[:len(service.Name)] == service.Name && count > service.Spec.Limits.LinksPerEndpoint {
				t.Fatalf("%s has %d links, %d are allowed", at, count, service.Spec.Limits.LinksPerEndpoint)
			}
		}
	}
}

// keysAreThere tells that links between nodes have the keys of both where they ask for encryption, and others none.
func (w *random) keysAreThere(t *testing.T) {
	t.Helper()
	for i := range w.Links {
		spec := &w.Links[i].Spec
		client, endpoint := w.pod(spec.Client.UID), w.pod(spec.Endpoint.UID)
		for _, end := range []*v1alpha1.LinkEnd{&spec.Client, &spec.Endpoint} {
			if client == nil || endpoint == nil {
				continue
			}
			var want *v1alpha1.LinkNodeKeys
			if spec.Encrypted() && client.Node != endpoint.Node {
				want = w.Nodes[end.Node].Keys
			}
			if !equality.Semantic.DeepEqual(end.NodeKeys, want) {
				t.Fatalf("link %s has the keys %+v of node %s, want %+v", w.Links[i].Name, end.NodeKeys, end.Node, want)
			}
		}
	}
}

// stays tells that a plan removes no link without a reason, and none whose client would be without one for it.
func (w *random) stays(t *testing.T, plan *Result, before []v1alpha1.TSNLink) {
	t.Helper()
	remade := map[string]bool{}
	for i := range plan.Make {
		remade[plan.Make[i].Name] = true
	}
	for _, removal := range plan.Delete {
		spec := &removal.Link.Spec
		client, endpoint := w.pod(spec.Client.UID), w.pod(spec.Endpoint.UID)
		stillClient := client != nil && client.Labels[v1alpha1.ClientLabelPrefix+spec.Service] != ""
		stillEndpoint := endpoint == nil || endpoint.Labels[v1alpha1.EndpointLabelPrefix+spec.Service] != ""
		if spec.Hop == 0 && stillClient && stillEndpoint && !remade[removal.Link.Name] {
			t.Fatalf("link %s was removed, and nothing takes its place: %s", removal.Link.Name, removal.Why)
		}
		down, ok := downFor(removal.Link, w.Now)
		serves := endpoint != nil && endpoint.Ready && !endpoint.Deleting && w.Nodes[endpoint.Node].Ready
		if spec.Service == "plain" && stillClient && stillEndpoint && serves && (!ok || down < LinkTimeout) {
			t.Fatalf("link %s was removed though its endpoint serves: %s", removal.Link.Name, removal.Why)
		}
	}
	if len(before) != len(w.Links) {
		t.Fatal("a plan changes what it is given")
	}
}

// complete tells that a client without a link has none for want of endpoints.
func (w *random) complete(t *testing.T) {
	t.Helper()
	room := false
	load := map[string]int32{}
	for i := range w.Links {
		load[w.Links[i].Spec.Endpoint.UID]++
	}
	for _, pod := range w.Pods {
		if pod.Labels[v1alpha1.EndpointLabelPrefix+"plain"] != "" && pod.Ready && !pod.Deleting && w.Nodes[pod.Node].Ready &&
			load[pod.UID] < w.Services[0].Spec.Limits.LinksPerEndpoint {
			room = true
		}
	}
	for i := range w.Pods {
		pod := &w.Pods[i]
		if pod.Labels[v1alpha1.ClientLabelPrefix+"plain"] != "" && !pod.Deleting && w.Nodes[pod.Node].Ready && room && w.linkOf(pod, 0) == nil {
			t.Fatalf("client %s has no link, and there is an endpoint with room", pod.Name)
		}
	}
}

func thousand(tb testing.TB) *world {
	tb.Helper()
	w := newWorld(2)
	service := newService("s", "10.200.0.0/16")
	service.Spec.IPv6 = &v1alpha1.LinkRange{LinkCIDR: "fd00:200::/64"}
	w.Services = append(w.Services, service)
	for i := range 1000 {
		w.client(fmt.Sprintf("node%d", i%2), "s")
	}
	for i := range 20 {
		w.endpoint(fmt.Sprintf("node%d", i%2), "s")
	}
	return w
}

func TestPlanThousandLinks(t *testing.T) {
	w := thousand(t)
	began := time.Now()
	plan := w.round()
	first := time.Since(began)
	if len(plan.Make) != 1000 {
		t.Fatalf("%d links", len(plan.Make))
	}
	w.removePod(w.Pods[1000].UID)
	began = time.Now()
	plan = Plan(&w.Input)
	second := time.Since(began)
	if len(plan.Make) != 50 || len(plan.Delete) != 50 {
		t.Errorf("%d links are made and %d removed after the end of one of twenty endpoints, want 50 and 50", len(plan.Make), len(plan.Delete))
	}
	t.Logf("all at once: %v; one endpoint of twenty is gone: %v", first, second)
}

func BenchmarkARoundWithAThousandLinks(b *testing.B) {
	w := thousand(b)
	w.round()
	for b.Loop() {
		if plan := Plan(&w.Input); len(plan.Make)+len(plan.Change)+len(plan.Delete) > 0 {
			b.Fatal("there is something to do")
		}
	}
}
