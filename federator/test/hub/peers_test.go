// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"strings"
	"testing"

	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
)

// unapplied makes a cluster not take the last change, as Karmada reports it: with or without a status.
func (s *stretched) unapplied(cluster string, status *runtime.RawExtension) {
	s.t.Helper()
	var binding workv1alpha2.ClusterResourceBinding
	get(s.t, "", s.network+"-tsnnetwork", &binding)
	for i := range binding.Status.AggregatedStatus {
		item := &binding.Status.AggregatedStatus[i]
		if item.ClusterName == cluster {
			item.Applied, item.AppliedMessage, item.Status = false, "admission webhook does not answer", status
		}
	}
	if err := admin.Status().Update(s.t.Context(), &binding); err != nil {
		s.t.Fatal(err)
	}
}

func TestNodesOfSilentClusterStayPublished(t *testing.T) {
	s := newStretched(t, nil)
	item, two := s.member(), s.member()
	parts := s.parts(2)
	all := map[string]tsn.TSNNetworkStatus{
		item: {MTU: 1390, Peers: []tsn.PeerNode{node("a", "192.0.2.1", parts[item])}}, two: {MTU: 1450, Peers: []tsn.PeerNode{node("a", "192.0.2.2", parts[two])}},
	}
	s.report(all)
	eventually(t, "the nodes are told", func() bool {
		return len(s.peersOf(item)) == 1 && len(s.peersOf(two)) == 1 && s.rule(two)["/spec/mtu"] == "add 1390"
	})
	for name, status := range map[string]*runtime.RawExtension{
		"none": nil, "null": {Raw: []byte("null")}, "an empty one": {Raw: []byte("{}")}, "one that cannot be read": {Raw: []byte(`{"peers":7}`)},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			s.report(all)
			eventually(t, "the cluster is believed", func() bool { return s.condition(tsn.ConditionReady).Status == metav1.ConditionTrue })
			s.unapplied(item, status)
			eventually(t, "the cluster is waited for", func() bool { return strings.Contains(s.condition(tsn.ConditionReady).Message, item+" (") })
			if len(s.peersOf(item)) != 1 || len(s.peersOf(two)) != 1 {
				t.Errorf("told of %v and %v", s.peersOf(item), s.peersOf(two))
			}
			if got := s.rule(two)["/spec/mtu"]; got != "add 1390" {
				t.Errorf("the MTU became %s", got)
			}
		})
	}
	s.t = t
	all[item] = tsn.TSNNetworkStatus{MTU: 1390}
	s.report(all)
	eventually(t, "a cluster that says that it has no nodes is believed", func() bool { return len(s.peersOf(item)) == 0 })
}

func TestNodeAddressStaysWithFirstCluster(t *testing.T) {
	s := newStretched(t, nil)
	older, younger := s.member(), s.member()
	parts := s.parts(2)
	honest := node("a", "192.0.2.2", parts[younger])
	s.report(map[string]tsn.TSNNetworkStatus{older: {}, younger: {Peers: []tsn.PeerNode{honest}}})
	eventually(t, "the node is told", func() bool { return len(s.peersOf(younger)) == 1 })
	s.report(map[string]tsn.TSNNetworkStatus{older: {Peers: []tsn.PeerNode{node("thief", "192.0.2.2", parts[older])}}, younger: {Peers: []tsn.PeerNode{honest}}})
	eventually(t, "the condition names both clusters", func() bool {
		message := s.condition(tsn.ConditionDegraded).Message
		return strings.Contains(message, "nodes of cluster "+older+" are not passed on") && strings.Contains(message, "a node of cluster "+younger)
	})
	if len(s.peersOf(older)) != 0 || !equality.Semantic.DeepEqual(s.peersOf(younger)["a"], honest) {
		t.Errorf("told of %v and %v", s.peersOf(older), s.peersOf(younger))
	}
	// An address that a cluster gives up is free.
	s.report(map[string]tsn.TSNNetworkStatus{older: {Peers: []tsn.PeerNode{node("heir", "192.0.2.2", parts[older])}}, younger: {}})
	eventually(t, "the other has it", func() bool { return len(s.peersOf(older)) == 1 && len(s.peersOf(younger)) == 0 })
}

func TestNetworkIsReadyIfClustersAre(t *testing.T) {
	s := newStretched(t, nil)
	name := s.member()
	s.parts(1)
	s.report(map[string]tsn.TSNNetworkStatus{name: {Conditions: []metav1.Condition{
		{Type: tsn.ConditionReady, Status: metav1.ConditionFalse, Reason: "Overlaps", Message: "another has its VNI", LastTransitionTime: metav1.Now()},
	}}})
	eventually(t, "the condition says what the cluster says", func() bool {
		ready := s.condition(tsn.ConditionReady)
		return ready.Status == metav1.ConditionFalse && ready.Reason == "ClustersNotReady" && strings.Contains(ready.Message, name+" (another has its VNI)")
	})
	s.report(map[string]tsn.TSNNetworkStatus{name: {Conditions: []metav1.Condition{}}})
	eventually(t, "a cluster that says nothing is awaited", func() bool {
		return strings.Contains(s.condition(tsn.ConditionReady).Message, name+" (it has not reported yet)")
	})
	s.report(map[string]tsn.TSNNetworkStatus{name: {}})
	eventually(t, "the network is ready", func() bool { return s.condition(tsn.ConditionReady).Status == metav1.ConditionTrue })
}

func TestSubnetsStayWhenRangeGrows(t *testing.T) {
	s := newStretched(t, func(network *tsn.TSNNetwork) { network.Spec.IPv6.NodePrefixLength = 60 })
	name := s.member()
	before := s.parts(1)[name]
	s.change(func(network *tsn.TSNNetwork) { network.Spec.IPv4.CIDR = "10.42.0.0/15" })
	eventually(t, "the condition says why nothing changes", func() bool {
		ready := s.condition(tsn.ConditionReady)
		return ready.Status == metav1.ConditionFalse && ready.Reason == "SpanInvalid" && strings.Contains(ready.Message, "the parts of "+name)
	})
	if now := s.parts(1)[name]; now.IPv4 != before.IPv4 || now.IPv6 != before.IPv6 {
		t.Errorf("it has %+v, before %+v", now, before)
	}
	s.change(func(network *tsn.TSNNetwork) { network.Spec.IPv6.CIDR = "fd42::/47" })
	eventually(t, "both ranges may grow", func() bool { return s.condition(tsn.ConditionReady).Reason == "WaitingForClusters" })
	if now := s.parts(1)[name]; now.IPv4 != before.IPv4 || now.IPv6 != before.IPv6 {
		t.Errorf("it has %+v, before %+v", now, before)
	}
}

// change changes the network.
func (s *stretched) change(how func(*tsn.TSNNetwork)) {
	s.t.Helper()
	var network tsn.TSNNetwork
	eventually(s.t, "the network is written", func() bool {
		get(s.t, "", s.network, &network)
		how(&network)
		return admin.Update(s.t.Context(), &network) == nil
	})
}

func TestSignedNodeKeysArePublishedUnchanged(t *testing.T) {
	s := newStretched(t, nil)
	name, two := s.member(), s.member()
	parts := s.parts(2)
	key, err := clusterkey.New()
	if err != nil {
		t.Fatal(err)
	}
	signed := node("a", "192.0.2.2", parts[two])
	signed.Keys = []tsn.NodeKey{{ID: "one", Algorithm: tsn.KeyAlgorithm, PublicKey: key.Public().String(), NotBefore: metav1.Unix(1e9, 0)}}
	signed.Sender = &tsn.SenderGenerations{Kernel: 3, Ktsnd: 7}
	key.Sign(s.network, &signed)
	s.report(map[string]tsn.TSNNetworkStatus{
		name: {MTU: 1413},
		two:  {MTU: 1413, Peers: []tsn.PeerNode{signed}, ClusterKeys: []tsn.ClusterKey{{Cluster: name, PublicKey: "another"}, {PublicKey: key.Public().String()}}},
	})
	eventually(t, "the node is told", func() bool { return len(s.peersOf(two)) == 1 })
	carried := s.peersOf(two)["a"]
	if err := key.Public().Verify(s.network, &carried); err != nil || carried.Sender.Ktsnd != 7 {
		t.Errorf("%v: %+v", err, carried)
	}
	var peers tsn.TSNPeers
	get(t, "", s.network+"."+two+"-0", &peers)
	if peers.Spec.ClusterKey != key.Public().String() {
		t.Errorf("the cluster is said to sign by %q", peers.Spec.ClusterKey)
	}
}
