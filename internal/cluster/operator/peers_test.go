// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

func TestDeletedNetworkIsForgotten(t *testing.T) {
	scheme := runtime.NewScheme()
	must(t, AddToScheme(scheme))
	left := &v1alpha1.TSNPeers{
		ObjectMeta: metav1.ObjectMeta{
			Name: "gone-0", Labels: map[string]string{v1alpha1.NetworkLabel: "gone", managedBy: string(fieldOwner)},
		},
		Spec: v1alpha1.TSNPeersSpec{Network: "gone", Nodes: []v1alpha1.PeerNode{{Name: "a", Address: "192.0.2.1", IPv4: "10.42.0.0/24"}}},
	}
	r := &Peers{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(left).Build(), pace: newPace(time.Now)}
	r.pace.done("gone")
	must(t, r.reconcile(t.Context(), "gone"))
	var list v1alpha1.TSNPeersList
	if err := r.Client.List(t.Context(), &list); err != nil || len(list.Items) > 0 || len(r.pace.last) > 0 {
		t.Errorf("there are %d TSNPeers, %v, and times of %v", len(list.Items), err, r.pace.last)
	}
}

// TestFailedPeersWriteIsNotPaced lets the API server reject the write.
func TestFailedPeersWriteIsNotPaced(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{v1alpha1.NodeLabel: v1alpha1.LabelValue}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}
	state := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.TSNNodeSpec{Networks: []v1alpha1.NodeNetwork{{Name: "old", IPv4: "10.42.0.0/24"}}}}
	network := deleted()
	network.DeletionTimestamp = nil
	n := inCluster(t, node, state, network)
	refusing := interceptor.NewClient(n.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return errors.New("connection refused")
		},
	})
	r := &Peers{Client: refusing, shared: n.shared, pace: newPace(time.Now)}
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(network)}
	if _, err := r.Reconcile(t.Context(), request); err == nil || len(r.pace.last) > 0 {
		t.Errorf("got %v, and there are times of %v", err, r.pace.last)
	}
	r.Client = n.Client
	if _, err := r.Reconcile(t.Context(), request); err != nil || len(r.pace.last) != 1 {
		t.Errorf("got %v, and there are times of %v", err, r.pace.last)
	}
}

// TestForeignShardNames uses TSNPeers with the name of a shard and without its label.
func TestForeignShardNames(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{v1alpha1.NodeLabel: v1alpha1.LabelValue}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}
	state := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.TSNNodeSpec{Networks: []v1alpha1.NodeNetwork{{Name: "old", IPv4: "10.42.0.0/24"}}}}
	taken := &v1alpha1.TSNPeers{ObjectMeta: metav1.ObjectMeta{Name: "old-0"}, Spec: v1alpha1.TSNPeersSpec{Network: "old"}}
	network := deleted()
	network.DeletionTimestamp = nil
	n := inCluster(t, node, state, taken, network)
	r := &Peers{Client: n.Client, shared: n.shared, pace: newPace(time.Now)}
	result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(network)})
	if err != nil || result.RequeueAfter > 0 {
		t.Fatalf("it is looked at again after %v, %v", result.RequeueAfter, err)
	}
	peers := &v1alpha1.TSNPeers{}
	if err := r.Client.Get(t.Context(), client.ObjectKey{Name: "old-1"}, peers); err != nil || len(peers.Spec.Nodes) != 1 || peers.Labels[v1alpha1.NetworkLabel] != "old" {
		t.Errorf("the peers are %+v, %v", peers, err)
	}
}

// TestTunnelAddressesAfterRestart uses TSNPeers of a previous operator, while an older node reports the address of a younger one.
func TestTunnelAddressesAfterRestart(t *testing.T) {
	node := func(name string, age time.Duration) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e6, 0).Add(-age))},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}
	}
	peers := func(name, cluster, manager, node string) *v1alpha1.TSNPeers {
		return &v1alpha1.TSNPeers{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.NetworkLabel: "old", managedBy: manager}},
			Spec:       v1alpha1.TSNPeersSpec{Network: "old", Cluster: cluster, Nodes: []v1alpha1.PeerNode{{Name: node, Address: "192.0.2.1", IPv4: "10.42.0.0/24"}}},
		}
	}
	operator := string(fieldOwner)
	for name, other := range map[string]*v1alpha1.TSNPeers{
		"of another cluster":           peers("old.plant-0", "plant", operator, "older"),
		"of another manager":           peers("old-1", "", "somebody", "older"),
		"of a name that is no shard's": peers("older", "", operator, "older"),
	} {
		t.Run(name, func(t *testing.T) {
			r := inCluster(t, node("older", time.Hour), node("younger", time.Minute), peers("old-0", "", operator, "younger"), other)
			set, err := listNodes(t.Context(), r.Client, nil, r.shared.tunnels)
			if err != nil || len(set.addresses) != 1 || !set.addresses["younger"].IsValid() || set.faults["older"] == nil {
				t.Errorf("the tunnels end at %v, %v, %v", set.addresses, set.faults, err)
			}
		})
	}
}

// TestTunnelAddressesOfLinksAfterRestart has no networks, only nodes with ends of links.
func TestTunnelAddressesOfLinksAfterRestart(t *testing.T) {
	node := func(name string, age time.Duration) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e6, 0).Add(-age))},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}
	}
	link := func(maker, node, uid string, admitted metav1.ConditionStatus) *v1alpha1.TSNLink {
		link := &v1alpha1.TSNLink{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: maker + node, Labels: map[string]string{v1alpha1.LinkMakerLabel: maker}}}
		link.Spec.Client, link.Spec.Endpoint = v1alpha1.LinkEnd{Node: "far", UID: "far", NodeAddress: "192.0.2.1"}, v1alpha1.LinkEnd{Node: node, UID: uid, NodeAddress: "192.0.2.1"}
		link.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: admitted}}
		return link
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "own"}, Spec: corev1.PodSpec{NodeName: "younger"}}
	for name, test := range map[string]struct {
		links []client.Object
		want  string
	}{
		"operators_link":       {[]client.Object{link(v1alpha1.MakerOperator, "younger", "any", metav1.ConditionUnknown)}, "younger"},
		"admitted_link_of_hub": {[]client.Object{link(v1alpha1.MakerFederator, "younger", "own", metav1.ConditionTrue)}, "younger"},
		"link_not_admitted":    {[]client.Object{link(v1alpha1.MakerFederator, "younger", "own", metav1.ConditionFalse)}, "older"},
		"end_of_other_cluster": {[]client.Object{link(v1alpha1.MakerFederator, "younger", "foreign", metav1.ConditionTrue)}, "older"},
		"no_link_names_a_node": {nil, "older"},
		"pod_of_another_node":  {[]client.Object{link(v1alpha1.MakerFederator, "older", "own", metav1.ConditionTrue), link(v1alpha1.MakerOperator, "younger", "any", metav1.ConditionTrue)}, "younger"},
	} {
		t.Run(name, func(t *testing.T) {
			r := inCluster(t, append(test.links, node("older", time.Hour), node("younger", time.Minute), pod)...)
			set, err := listNodes(t.Context(), r.Client, nil, r.shared.tunnels)
			if err != nil || len(set.addresses) != 1 || !set.addresses[test.want].IsValid() {
				t.Errorf("the tunnels end at %v, %v, %v", set.addresses, set.faults, err)
			}
		})
	}
}

// TestStrayPeersAreDeleted uses TSNPeers that others created, and a shard without the label managedBy.
func TestStrayPeersAreDeleted(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{v1alpha1.NodeLabel: v1alpha1.LabelValue}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}
	state := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.TSNNodeSpec{Networks: []v1alpha1.NodeNetwork{{Name: "old", IPv4: "10.42.0.0/24"}}}}
	peers := func(name, network, cluster, node string) *v1alpha1.TSNPeers {
		return &v1alpha1.TSNPeers{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.NetworkLabel: "old"}},
			Spec: v1alpha1.TSNPeersSpec{Network: network, Cluster: cluster, Nodes: []v1alpha1.PeerNode{{Name: node, Address: "192.0.2.1", IPv4: "10.42.0.0/24"}}}}
	}
	unlabelled := peers("unlabelled", "old", "", "x")
	unlabelled.Labels = nil
	managed := peers("forged", "old", "", "x")
	managed.Labels[managedBy] = string(fieldOwner)
	network := deleted()
	network.DeletionTimestamp = nil
	n := inCluster(t, node, state, network, managed, peers("old-0", "old", "", "a"), peers("old-00", "old", "", "x"), peers("old-1", "other", "", "x"),
		peers("old-2", "old", "", "x"), peers("old.plant-0", "old", "plant", "x"), unlabelled)
	r := &Peers{Client: n.Client, shared: n.shared, pace: newPace(time.Now)}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(network)}); err != nil {
		t.Fatal(err)
	}
	must(t, r.reconcile(t.Context(), "")) // of TSNPeers without the label
	var list v1alpha1.TSNPeersList
	must(t, r.Client.List(t.Context(), &list))
	left := map[string]string{}
	for i := range list.Items {
		left[list.Items[i].Name] = list.Items[i].Labels[managedBy] + " " + list.Items[i].Spec.Nodes[0].Name
	}
	if want := map[string]string{"old-0": string(fieldOwner) + " a", "old.plant-0": " x", "unlabelled": " x"}; !maps.Equal(left, want) {
		t.Errorf("there are %v, want %v", left, want)
	}
}
