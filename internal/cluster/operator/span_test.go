// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// part of network old that the cluster of these tests has.
const clusterPart = "10.42.64.0/20"

func stretchedNetwork() *v1alpha1.TSNNetwork {
	return &v1alpha1.TSNNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: "old"},
		Spec:       v1alpha1.TSNNetworkSpec{VNI: 42, IPv4: v1alpha1.Range4{CIDR: "10.42.0.0/16", Part: clusterPart, NodePrefixLength: 24}},
	}
}

// servingNode is node a with its part of the network, as its agent says of it.
func servingNode(mtu int32) []client.Object {
	return []client.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{v1alpha1.NodeLabel: v1alpha1.LabelValue}},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}},
		&v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: "a"},
			Spec:   v1alpha1.TSNNodeSpec{Networks: []v1alpha1.NodeNetwork{{Name: "old", IPv4: "10.42.64.0/24", Pods: 1}}},
			Status: v1alpha1.TSNNodeStatus{AgentVersion: "1", Networks: []v1alpha1.NodeNetworkStatus{{Name: "old", MTU: mtu}}}},
		aPod("default"),
	}
}

func heartbeat(age time.Duration) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kubernetsn", Name: v1alpha1.HubHeartbeat},
		Data: map[string]string{v1alpha1.HubObservedAt: time.Now().Add(-age).UTC().Format(time.RFC3339)}}
}

func TestAllocateFromClusterPart(t *testing.T) {
	r := inCluster(t, append(servingNode(1450), stretchedNetwork())...)
	status := r.lookAt(t).Status
	want := v1alpha1.PeerNode{Name: "a", Address: "192.0.2.1", IPv4: "10.42.64.0/24", MTU: 1450}
	if len(status.Peers) != 1 || !equality.Semantic.DeepEqual(status.Peers[0], want) || status.MTU != 1450 {
		t.Errorf("the hub reads %+v with an MTU of %d, want %+v", status.Peers, status.MTU, want)
	}
	if part := r.shared.subnets.forNetwork("old")["a"]; part.ipv4.String() != "10.42.64.0/24" {
		t.Errorf("node a has %s, want the first of the cluster's %s", part.ipv4, clusterPart)
	}
}

func TestNoSpanInSingleCluster(t *testing.T) {
	network := stretchedNetwork()
	network.Spec.IPv4.Part = ""
	status := inCluster(t, append(servingNode(1450), network, heartbeat(0))...).lookAt(t).Status
	if status.Peers != nil || status.MTU != 0 || meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionHubSeen) != nil {
		t.Errorf("said %+v, %d, %+v", status.Peers, status.MTU, status.Conditions)
	}
}

func TestHubCondition(t *testing.T) {
	for what, test := range map[string]struct {
		heartbeat client.Object
		want      metav1.ConditionStatus
		text      string
	}{
		"renewed":     {heartbeat(10 * time.Second), metav1.ConditionTrue, "renews its heartbeat"},
		"silent":      {heartbeat(70 * time.Second), metav1.ConditionFalse, "the hub has not renewed its heartbeat since"},
		"never there": {nil, metav1.ConditionUnknown, "has not given the cluster its heartbeat yet"},
		"no time":     {&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kubernetsn", Name: v1alpha1.HubHeartbeat}}, metav1.ConditionUnknown, "not given"},
	} {
		t.Run(what, func(t *testing.T) {
			objects := []client.Object{stretchedNetwork()}
			if test.heartbeat != nil {
				objects = append(objects, test.heartbeat)
			}
			condition := meta.FindStatusCondition(inCluster(t, objects...).lookAt(t).Status.Conditions, v1alpha1.ConditionHubSeen)
			if condition == nil || condition.Status != test.want || !strings.Contains(condition.Message, test.text) {
				t.Errorf("said %+v, want %s, %q", condition, test.want, test.text)
			}
		})
	}
}

func TestRequeueWhenHubExpires(t *testing.T) {
	r := inCluster(t, stretchedNetwork(), heartbeat(50*time.Second))
	result, err := r.Reconcile(t.Context(), requestFor("old"))
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > 10*time.Second {
		t.Errorf("looks again after %v, %v, want at most 10 s", result.RequeueAfter, err)
	}
}

func TestSpanOutsideHub(t *testing.T) {
	network := stretchedNetwork()
	network.Spec.IPv4.Part, network.Spec.Span = "", &v1alpha1.Span{ClusterPrefixLength: 20}
	condition := meta.FindStatusCondition(inCluster(t, network).lookAt(t).Status.Conditions, v1alpha1.ConditionReady)
	if condition == nil || condition.Status != metav1.ConditionFalse || condition.Reason != v1alpha1.ReasonSpanOfHub {
		t.Errorf("said %+v", condition)
	}
}

func TestMTUFindings(t *testing.T) {
	network := stretchedNetwork()
	network.Spec.MTU = 8950
	condition := meta.FindStatusCondition(inCluster(t, append(servingNode(1450), network)...).lookAt(t).Status.Conditions, v1alpha1.ConditionReady)
	if condition == nil || condition.Reason != v1alpha1.ReasonMTUTooLarge || !strings.Contains(condition.Message, "a (1450)") {
		t.Errorf("said %+v", condition)
	}
}
