// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	inventory "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// newNetwork creates a network, which is deleted with the test. change may be nil.
func newNetwork(t *testing.T, word string, change func(*tsn.TSNNetwork)) string {
	t.Helper()
	network := &tsn.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: unique(word)}}
	network.Spec.VNI = int32(<-counter)
	network.Spec.IPv4 = tsn.Range4{CIDR: "10.42.0.0/16", NodePrefixLength: 24}
	if change != nil {
		change(network)
	}
	create(t, network)
	t.Cleanup(func() { _ = client.IgnoreNotFound(admin.Delete(context.Background(), network)) })
	return network.Name
}

// stretched is a network over clusters with a label.
type stretched struct {
	t       *testing.T
	f       *running
	token   string
	fleet   string
	network string
}

func newStretched(t *testing.T, change func(*tsn.TSNNetwork)) *stretched {
	t.Helper()
	s := &stretched{t: t, f: startFederator(t), token: newAdmin(t), fleet: unique("fleet")}
	s.network = newNetwork(t, "line", func(network *tsn.TSNNetwork) {
		network.Spec.IPv6 = &tsn.Range6{CIDR: "fd42::/48", NodePrefixLength: 64}
		network.Spec.Span = &tsn.Span{ClusterPrefixLength: 20, Clusters: &metav1.LabelSelector{MatchLabels: map[string]string{"fleet": s.fleet}}}
		if change != nil {
			change(network)
		}
	})
	return s
}

// member creates a cluster that the network selects.
func (s *stretched) member() string {
	s.t.Helper()
	name := newCluster(s.t, v1alpha1.Pull)
	s.choose(name)
	return name
}

// choose makes the network select a cluster.
func (s *stretched) choose(name string) {
	s.t.Helper()
	var cluster v1alpha1.Cluster
	get(s.t, "", name, &cluster)
	cluster.Labels = map[string]string{"fleet": s.fleet}
	if err := admin.Update(context.Background(), &cluster); err != nil {
		s.t.Fatal(err)
	}
}

// listed returns the network as the API shows it.
func (s *stretched) listed() federation.Network {
	s.t.Helper()
	var all federation.Networks
	s.f.must(s.token, "GET", "/api/v1/networks", nil, &all)
	at := slices.IndexFunc(all.Items, func(network federation.Network) bool { return network.Name == s.network })
	if at < 0 {
		s.t.Fatalf("network %s is not told", s.network)
	}
	return all.Items[at]
}

// parts waits until a number of clusters have a subnet.
func (s *stretched) parts(count int) map[string]federation.NetworkOnCluster {
	s.t.Helper()
	var parts map[string]federation.NetworkOnCluster
	eventually(s.t, "clusters have parts", func() bool {
		parts = map[string]federation.NetworkOnCluster{}
		for _, on := range s.listed().Clusters {
			parts[on.Cluster] = on
		}
		return len(parts) == count
	})
	return parts
}

// report sets the clusters' reports about their subnets, as Karmada collects them.
func (s *stretched) report(statuses map[string]tsn.TSNNetworkStatus) {
	s.t.Helper()
	binding := &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: s.network + "-tsnnetwork"}}
	binding.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "kubernetsn.io/v1alpha1", Kind: "TSNNetwork", Name: s.network}
	if err := admin.Create(context.Background(), binding); err != nil && !apierrors.IsAlreadyExists(err) {
		s.t.Fatal(err)
	}
	get(s.t, "", binding.Name, binding)
	binding.Status.AggregatedStatus = nil
	for _, cluster := range slices.Sorted(maps.Keys(statuses)) {
		status := statuses[cluster]
		if status.Conditions == nil {
			status.Conditions = []metav1.Condition{{Type: tsn.ConditionReady, Status: metav1.ConditionTrue, Reason: tsn.ReasonAsAsked, LastTransitionTime: metav1.Now()}}
		}
		raw, err := json.Marshal(status)
		if err != nil {
			s.t.Fatal(err)
		}
		binding.Status.AggregatedStatus = append(binding.Status.AggregatedStatus,
			workv1alpha2.AggregatedStatusItem{ClusterName: cluster, Applied: true, Status: &runtime.RawExtension{Raw: raw}})
	}
	if err := admin.Status().Update(context.Background(), binding); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = client.IgnoreNotFound(admin.Delete(context.Background(), binding)) })
}

// peersOf returns the published nodes of a cluster by name.
func (s *stretched) peersOf(cluster string) map[string]tsn.PeerNode {
	s.t.Helper()
	var list tsn.TSNPeersList
	if err := admin.List(context.Background(), &list, client.MatchingLabels{tsn.NetworkLabel: s.network}); err != nil {
		s.t.Fatal(err)
	}
	nodes := map[string]tsn.PeerNode{}
	for _, peers := range list.Items {
		for _, node := range peers.Spec.Nodes {
			if peers.Spec.Cluster == cluster {
				nodes[node.Name] = node
			}
		}
	}
	return nodes
}

func (s *stretched) condition(kind string) metav1.Condition {
	s.t.Helper()
	var network tsn.TSNNetwork
	get(s.t, "", s.network, &network)
	if condition := meta.FindStatusCondition(network.Status.Conditions, kind); condition != nil {
		return *condition
	}
	return metav1.Condition{}
}

// rule returns the override of a path for a cluster.
func (s *stretched) rule(cluster string) map[string]string {
	s.t.Helper()
	var override policyv1alpha1.ClusterOverridePolicy
	get(s.t, "", "kubernetsn-network-"+s.network, &override)
	fields := map[string]string{}
	for _, rule := range override.Spec.OverrideRules {
		if slices.Equal(rule.TargetCluster.ClusterNames, []string{cluster}) {
			for _, field := range rule.Overriders.Plaintext {
				fields[field.Path] = string(field.Operator) + " " + string(field.Value.Raw)
			}
		}
	}
	return fields
}

func (s *stretched) placed(policy string) []string {
	s.t.Helper()
	var placed policyv1alpha1.ClusterPropagationPolicy
	if err := admin.Get(context.Background(), types.NamespacedName{Name: policy}, &placed); err != nil {
		return nil
	}
	return placed.Spec.Placement.ClusterAffinity.ClusterNames
}

// node returns a node of a cluster with the first range of its subnet.
func node(name, address string, networkOnCluster federation.NetworkOnCluster) tsn.PeerNode {
	ipv4, _, _ := strings.Cut(networkOnCluster.IPv4, "/")
	ipv6, _, _ := strings.Cut(networkOnCluster.IPv6, "/")
	return tsn.PeerNode{Name: name, Address: address, IPv4: ipv4 + "/24", IPv6: ipv6 + "/64", MTU: 1450}
}

func TestNetworkSpansClusters(t *testing.T) {
	s := newStretched(t, nil)
	name, two := s.member(), s.member()
	parts := s.parts(2)
	if parts[name].IPv4 == parts[two].IPv4 || parts[name].IPv6 == parts[two].IPv6 || !strings.HasSuffix(parts[name].IPv4, "/20") || !strings.HasSuffix(parts[name].IPv6, "/52") {
		t.Fatalf("parts %+v", parts)
	}
	if got := s.rule(name); got["/spec/span"] != "remove " || got["/spec/ipv4/part"] != `add "`+parts[name].IPv4+`"` || got["/spec/ipv6/part"] != `add "`+parts[name].IPv6+`"` {
		t.Errorf("cluster %s has %v", name, got)
	}
	eventually(t, "the network is on both", func() bool { return slices.Equal(s.placed("kubernetsn-network-"+s.network), []string{name, two}) })
	eventually(t, "they are waited for", func() bool {
		return strings.Contains(s.condition(tsn.ConditionReady).Message, "have not applied the network yet: "+name+"; "+two)
	})

	s.report(map[string]tsn.TSNNetworkStatus{
		name: {MTU: 1450, Peers: []tsn.PeerNode{node("a", "192.0.2.1", parts[name])}},
		two:  {MTU: 1390, Peers: []tsn.PeerNode{node("a", "192.0.2.2", parts[two])}},
	})
	eventually(t, "the nodes are told", func() bool { return len(s.peersOf(name)) == 1 && len(s.peersOf(two)) == 1 })
	if got := s.peersOf(two)["a"]; !equality.Semantic.DeepEqual(got, node("a", "192.0.2.2", parts[two])) {
		t.Errorf("told of %+v", got)
	}
	eventually(t, "the other hears of them", func() bool {
		return slices.Equal(s.placed("kubernetsn-peers-"+s.network+"."+name), []string{two}) && slices.Equal(s.placed("kubernetsn-peers-"+s.network+"."+two), []string{name})
	})
	eventually(t, "the smaller MTU is used", func() bool { return s.rule(name)["/spec/mtu"] == "add 1390" && s.rule(two)["/spec/mtu"] == "add 1390" })
	eventually(t, "the network is ready", func() bool { return s.condition(tsn.ConditionReady).Status == metav1.ConditionTrue })

	third := s.member()
	now := s.parts(3)
	if now[name].IPv4 != parts[name].IPv4 || now[two].IPv4 != parts[two].IPv4 || now[third].IPv4 == parts[name].IPv4 || now[third].IPv4 == parts[two].IPv4 {
		t.Errorf("parts %+v, before %+v", now, parts)
	}
}

func TestDeselectedClusterKeepsSubnet(t *testing.T) {
	s := newStretched(t, nil)
	name, two := s.member(), s.member()
	parts := s.parts(2)
	s.report(map[string]tsn.TSNNetworkStatus{two: {Peers: []tsn.PeerNode{node("a", "192.0.2.2", parts[two])}}})
	eventually(t, "the node is told", func() bool { return len(s.peersOf(two)) == 1 })
	var cluster v1alpha1.Cluster
	get(t, "", two, &cluster)
	cluster.Labels = nil
	if err := admin.Update(t.Context(), &cluster); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node is forgotten", func() bool { return len(s.peersOf(two)) == 0 })
	eventually(t, "the network is on one", func() bool { return slices.Equal(s.placed("kubernetsn-network-"+s.network), []string{name}) })
	if now := s.parts(2); now[two].IPv4 != parts[two].IPv4 {
		t.Errorf("it has %s now, before %s", now[two].IPv4, parts[two].IPv4)
	}
	third := s.member()
	if now := s.parts(3); now[third].IPv4 == parts[two].IPv4 {
		t.Error("another cluster got its part")
	}
	// A member that has left has no subnet.
	if err := admin.Delete(t.Context(), &cluster); err != nil {
		t.Fatal(err)
	}
	s.parts(2)
}

func TestInvalidReportsAreNotPublished(t *testing.T) {
	s := newStretched(t, nil)
	item, two := s.member(), s.member()
	parts := s.parts(2)
	good := node("good", "192.0.2.9", parts[two])
	with := func(name string, change func(*tsn.PeerNode)) tsn.PeerNode {
		liar := good
		liar.Name, liar.Address = name, "192.0.2.8"
		change(&liar)
		return liar
	}
	for name, liar := range map[string]tsn.PeerNode{
		"other":    with("other", func(n *tsn.PeerNode) { n.IPv4 = node("", "", parts[item]).IPv4 }),
		"other6":   with("other6", func(n *tsn.PeerNode) { n.IPv6 = node("", "", parts[item]).IPv6 }),
		"all":      with("all", func(n *tsn.PeerNode) { n.IPv4 = "0.0.0.0/0" }),
		"none":     with("none", func(n *tsn.PeerNode) { n.IPv4 = "" }),
		"loopback": with("loopback", func(n *tsn.PeerNode) { n.Address = "127.0.0.1" }),
		"inside":   with("inside", func(n *tsn.PeerNode) { n.Address = "10.42.0.1" }),
		"stolen":   with("stolen", func(n *tsn.PeerNode) { n.Address = "192.0.2.1" }),
		"same":     with("same", func(n *tsn.PeerNode) { n.Address = good.Address }),
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			s.report(map[string]tsn.TSNNetworkStatus{
				item: {Peers: []tsn.PeerNode{node("a", "192.0.2.1", parts[item])}}, two: {Peers: []tsn.PeerNode{good, liar}},
			})
			eventually(t, "the condition names the node", func() bool {
				degraded := s.condition(tsn.ConditionDegraded)
				return degraded.Status == metav1.ConditionTrue && strings.Contains(degraded.Message, "of cluster "+two) && strings.Contains(degraded.Message, `node "`+name+`"`)
			})
			if peers := s.peersOf(two); len(peers) != 1 || !equality.Semantic.DeepEqual(peers["good"], good) {
				t.Errorf("others are told of %v", peers)
			}
		})
	}
	s.t = t
	s.report(map[string]tsn.TSNNetworkStatus{two: {MTU: 100}})
	eventually(t, "an MTU that cannot be is named", func() bool {
		return strings.Contains(s.condition(tsn.ConditionDegraded).Message, "reports an MTU of 100")
	})
	if got, has := s.rule(item)["/spec/mtu"]; has {
		t.Errorf("the MTU is %s", got)
	}
}

func TestConflictingNetworkIsBlocked(t *testing.T) {
	// Created in the same second, so the name decides.
	older := newNetwork(t, "a", func(network *tsn.TSNNetwork) { network.Spec.IPv4.CIDR = "10.42.128.0/17" })
	s := newStretched(t, nil)
	s.member()
	eventually(t, "the condition says so", func() bool {
		ready := s.condition(tsn.ConditionReady)
		return ready.Status == metav1.ConditionFalse && ready.Reason == tsn.ReasonOverlaps && strings.Contains(ready.Message, "network "+older+" is older")
	})
	if placed := s.placed("kubernetsn-network-" + s.network); placed != nil {
		t.Errorf("it is on %v", placed)
	}
	if err := admin.Delete(t.Context(), &tsn.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: older}}); err != nil {
		t.Fatal(err)
	}
	s.parts(1)
}

func TestNetworkRangeIsUsedUp(t *testing.T) {
	s := newStretched(t, func(network *tsn.TSNNetwork) {
		network.Spec.IPv4.CIDR, network.Spec.IPv6, network.Spec.Span.ClusterPrefixLength = "10.42.0.0/20", nil, 21
	})
	s.member()
	s.member()
	s.parts(2)
	last := s.member()
	eventually(t, "the condition names the cluster", func() bool {
		degraded := s.condition(tsn.ConditionDegraded)
		return degraded.Reason == tsn.ReasonRangeUsedUp && strings.Contains(degraded.Message, last)
	})
	if placed := s.placed("kubernetsn-network-" + s.network); slices.Contains(placed, last) || len(placed) != 2 {
		t.Errorf("it is on %v", placed)
	}
}

func TestBaseTimeIsCommon(t *testing.T) {
	s := newStretched(t, func(network *tsn.TSNNetwork) {
		network.Spec.Schedule = &tsn.GateParameterTable{GateEnabled: true, AdminCycleTime: &tsn.CycleTime{Numerator: 1, Denominator: 1000},
			AdminControlList: &tsn.GateControlList{Entries: []tsn.GateControlEntry{{OperationName: "set-gate-states", TimeIntervalValue: 1000000, GateStatesValue: 255}}}}
	})
	name := s.member()
	s.parts(1)
	base := s.rule(name)["/spec/schedule/admin-base-time"]
	if !strings.Contains(base, "seconds") {
		t.Fatalf("the base time is %q", base)
	}
	two := s.member()
	s.parts(2)
	if again, other := s.rule(name)["/spec/schedule/admin-base-time"], s.rule(two)["/spec/schedule/admin-base-time"]; again != base || other != base {
		t.Errorf("base times %s and %s, before %s", again, other, base)
	}
}

func TestForeignPoliciesAreKept(t *testing.T) {
	f, token := startFederator(t), newAdmin(t)
	name := unique("foreign")
	foreign := &policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "kubernetsn-network-" + name}}
	foreign.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{}
	create(t, foreign)
	t.Cleanup(func() { _ = admin.Delete(context.Background(), foreign) })
	network := &tsn.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
	network.Spec.VNI, network.Spec.IPv4, network.Spec.Span = int32(<-counter), tsn.Range4{CIDR: "10.42.0.0/16", NodePrefixLength: 24}, &tsn.Span{ClusterPrefixLength: 20}
	create(t, network)
	t.Cleanup(func() { _ = admin.Delete(context.Background(), network) })
	s := &stretched{t: t, f: f, token: token, network: name}
	eventually(t, "the condition says so", func() bool {
		return strings.Contains(s.condition(tsn.ConditionReady).Message, "created by somebody else")
	})
	if placed := s.placed("kubernetsn-network-" + name); placed != nil {
		t.Errorf("the network is on %v", placed)
	}
}

func TestHeartbeatAndInventory(t *testing.T) {
	startFederator(t)
	cluster := newCluster(t, v1alpha1.Pull)
	eventually(t, "the time is told", func() bool {
		var configMap corev1.ConfigMap
		err := admin.Get(t.Context(), types.NamespacedName{Namespace: system, Name: tsn.HubHeartbeat}, &configMap)
		return err == nil && configMap.Data["observedAt"] != ""
	})
	eventually(t, "it is brought to all clusters", func() bool {
		var policy policyv1alpha1.PropagationPolicy
		err := admin.Get(t.Context(), types.NamespacedName{Namespace: system, Name: tsn.HubHeartbeat}, &policy)
		return err == nil && policy.Spec.Placement.ClusterAffinity == nil && *policy.Spec.PreserveResourcesOnDeletion
	})
	var profile inventory.ClusterProfile
	at := types.NamespacedName{Namespace: system, Name: cluster}
	eventually(t, "the cluster has a profile", func() bool {
		return admin.Get(t.Context(), at, &profile) == nil && meta.IsStatusConditionTrue(profile.Status.Conditions, inventory.ClusterConditionControlPlaneHealthy)
	})
	if profile.Labels[inventory.LabelClusterManagerKey] != "karmada" || profile.Spec.ClusterManager.Name != "karmada" {
		t.Errorf("the profile is %+v", profile)
	}
	if err := admin.Delete(t.Context(), &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the profile goes with the cluster", func() bool { return apierrors.IsNotFound(admin.Get(t.Context(), at, &profile)) })
}

func TestNetworksAreListedWithRights(t *testing.T) {
	s := newStretched(t, nil)
	s.f.refused(newUser(t, newNamespace(t), nil, seesClusters), "GET", "/api/v1/networks", nil, http.StatusForbidden, "tsnnetworks")
}

// TestClusterIsPlacedWhenItReportsTheKind installs the chart after the cluster joined: Karmada's scheduler would skip
// the cluster forever.
func TestClusterIsPlacedWhenItReportsTheKind(t *testing.T) {
	s := newStretched(t, nil)
	early, late := s.member(), newCluster(t, v1alpha1.Pull)
	reports := func(kinds ...string) {
		t.Helper()
		var cluster v1alpha1.Cluster
		get(t, "", late, &cluster)
		cluster.Status.APIEnablements = reportedKinds(kinds...)
		if err := admin.Status().Update(t.Context(), &cluster); err != nil {
			t.Fatal(err)
		}
	}
	reports("TSNPeers")
	s.choose(late)
	l := &served{t: t, f: s.f, token: s.token, namespace: newNamespace(t), service: unique("plant"), clusters: []string{early, late}}
	l.make(l.service, nil)
	network, peers, service := "kubernetsn-network-"+s.network, "kubernetsn-peers-"+s.network+"."+early, "kubernetsn-service-"+l.service
	s.report(map[string]tsn.TSNNetworkStatus{early: {MTU: 1450, Peers: []tsn.PeerNode{node("n", "192.0.2.61", s.parts(2)[early])}}})
	read := func(clusters ...string) func() bool {
		return func() bool {
			return slices.Equal(s.placed(network), clusters) && slices.Equal(l.placedBy(service), clusters)
		}
	}
	both := slices.Sorted(slices.Values([]string{early, late}))
	eventually(t, "the cluster that reports the kinds has network and service", read(early))
	eventually(t, "the other one is told of its nodes", func() bool { return slices.Equal(s.placed(peers), []string{late}) })
	for kind, condition := range map[string]func(string) metav1.Condition{"TSNNetwork": s.condition, "TSNService": l.condition} {
		want := late + " (it does not report the kind " + kind + ", which the chart kubernetsn installs)"
		eventually(t, "Ready of the "+kind+" says "+want, func() bool { return strings.Contains(condition(tsn.ConditionReady).Message, want) })
	}
	reports("TSNPeers", "TSNNetwork", "TSNService")
	eventually(t, "both have network and service", read(both...))
	// A report without kinds, as when the cluster's API server did not answer for all, takes nothing from it.
	reports()
	reports("TSNLink")
	s.member()
	s.parts(3)
	eventually(t, "the network is on a third cluster", func() bool { return len(s.placed(network)) == 3 })
}
