// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// Of the release before: a network whose status has the nodes' parts, which are not those that would be given first.
const upgraded = "upgraded"

// leaveAsBefore makes what the release before leaves behind: parts in the network's status, nodes with a label and a pod each, one
// node whose last pod has gone, one that never had an agent, and what agents have said.
func leaveAsBefore(ctx context.Context) error {
	network := newNetwork(upgraded, 236, "10.236.0.0/16")
	network.Spec.IPv6 = &v1alpha1.Range6{CIDR: "fd36::/48", NodePrefixLength: 64}
	objects := []client.Object{network}
	for _, name := range []string{"upgraded-1", "upgraded-2", "upgraded-idle", "upgraded-without"} {
		node := newNode(name)
		objects = append(objects, node)
		if name == "upgraded-idle" {
			continue
		}
		node.Labels = map[string]string{v1alpha1.NodeLabel: v1alpha1.LabelValue}
		pod := onNetwork(name, "default", upgraded, name)
		pod.Labels = map[string]string{v1alpha1.PodLabel: v1alpha1.LabelValue}
		objects = append(objects, pod)
	}
	for _, object := range objects {
		if err := admin.Create(ctx, object); err != nil {
			return err
		}
	}
	for _, name := range []string{"upgraded-1", "upgraded-2"} {
		if err := makeAgent(ctx, name, "node"); err != nil {
			return err
		}
	}
	pods, ready := int32(1), metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsAsked,
		ObservedGeneration: 1, LastTransitionTime: metav1.Now()}
	network.Status = v1alpha1.TSNNetworkStatus{Pods: 3, NodesReady: "1/3", Nodes: []v1alpha1.NodeStatus{
		{Name: "upgraded-1", IPv4: "10.236.7.0/24", IPv6: "fd36:0:0:7::/64", Pods: &pods, Uplink: "eno1", Conditions: []metav1.Condition{ready}},
		{Name: "upgraded-2", IPv4: "10.236.9.0/24", IPv6: "fd36:0:0:9::/64", Pods: &pods},
		{Name: "upgraded-idle", IPv4: "10.236.0.0/24", IPv6: "fd36::/64"},
		{Name: "upgraded-without", IPv4: "10.236.8.0/24", IPv6: "fd36:0:0:8::/64", Pods: &pods},
	}}
	return admin.Status().Update(ctx, network)
}

func TestPartsOfTheReleaseBeforeStay(t *testing.T) {
	ctx := needOperator(t)
	want := map[string]string{
		"upgraded-1": "upgraded=10.236.7.0/24,1 gates=", "upgraded-2": "upgraded=10.236.9.0/24,1 gates=", "upgraded-idle": "upgraded=10.236.0.0/24,0 gates=",
		"upgraded-without": "upgraded=10.236.8.0/24,1 gates=",
	}
	for name, text := range want {
		isTold(ctx, t, stateOf(name), text)
	}
	network := newNetwork(upgraded, 0, "")
	older := func() string {
		t.Helper()
		if err := get(ctx, network); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(nodes(network), " ", network.Status.NodesReady)
	}
	// Agents of that release find their parts, and what they say counts, until there is none of them left.
	const all = "upgraded-1=10.236.7.0/24 upgraded-2=10.236.9.0/24 upgraded-idle=10.236.0.0/24 upgraded-without=10.236.8.0/24"
	eventually(ctx, t, func() error {
		if got := older(); got != all+" 1/3" {
			return fmt.Errorf("agents of the release before find %s", got)
		}
		return nil
	})
	report(ctx, t, network, "upgraded-2", metav1.ConditionTrue, v1alpha1.ReasonAsAsked, "")
	eventually(ctx, t, func() error {
		if got := older(); got != all+" 2/3" {
			return fmt.Errorf("agents of the release before find %s", got)
		}
		return nil
	})
	upgradeAgent(ctx, t, "upgraded-1", network)
	eventually(ctx, t, func() error {
		if is := network.Status.NodeProblems; older() != all+" 1/3" || len(is) != 2 || is[0].Node != "upgraded-1" {
			return fmt.Errorf("with one agent upgraded, agents of the release before find %s, and there are %+v", older(), is)
		}
		return nil
	})
	upgradeAgent(ctx, t, "upgraded-2", network)
	eventually(ctx, t, func() error {
		if got := older(); got != " 0/3" {
			return fmt.Errorf("with all agents upgraded, the status still has %s", got)
		}
		return nil
	})
	for name, text := range want {
		isTold(ctx, t, stateOf(name), text)
	}
	arePeers(ctx, t, upgraded, "map[upgraded-0:[upgraded-1 upgraded-2 upgraded-without]]")
	// From now on no network has parts in its status, though a node's agent has not begun.
	later := newNetwork("upgraded-later", 237, "10.237.0.0/16")
	create(ctx, t, newNode("upgraded-later"), later)
	create(ctx, t, onNetwork("upgraded-later", "default", "upgraded-later", "upgraded-later"))
	condition(ctx, t, later, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNodeWaited)
	if got := nodes(later); got != "" {
		t.Errorf("the status has the parts %s", got)
	}
}

// upgradeAgent says what an agent of this release says first: that it is there.
func upgradeAgent(ctx context.Context, t *testing.T, node string, network *v1alpha1.TSNNetwork) {
	t.Helper()
	state := stateOf(node)
	eventually(ctx, t, func() error {
		if err := get(ctx, state); err != nil {
			return err
		}
		state.Status.AgentVersion = "1"
		return admin.Status().Update(ctx, state)
	})
	if err := get(ctx, network); err != nil {
		t.Fatal(err)
	}
}

// nodes are the parts in a network's status.
func nodes(network *v1alpha1.TSNNetwork) string {
	var text []string
	for _, node := range network.Status.Nodes {
		text = append(text, node.Name+"="+node.IPv4)
	}
	return strings.Join(text, " ")
}

// report says what a node's agent of the release before would.
func report(ctx context.Context, t *testing.T, network *v1alpha1.TSNNetwork, node string, status metav1.ConditionStatus, reason, text string) {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"nodes": []any{map[string]any{
		"name": node, "uplink": "eno1", "conditions": []any{map[string]any{
			"type": v1alpha1.ConditionReady, "status": string(status), "reason": reason, "message": text,
			"observedGeneration": network.Generation, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}},
	}}}}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TSNNetwork"))
	object.SetName(network.Name)
	if err := admin.Status().Patch(ctx, object, client.Apply, client.FieldOwner("ktsn-agent-"+node), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
}
