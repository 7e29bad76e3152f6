// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// stateOf is the TSNNode of a node.
func stateOf(name string) *v1alpha1.TSNNode {
	return &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// describeState describes the spec of a TSNNode.
func describeState(state *v1alpha1.TSNNode) string {
	var text []string
	for _, network := range state.Spec.Networks {
		text = append(text, fmt.Sprintf("%s=%s,%d", network.Name, network.IPv4, network.Pods))
	}
	return strings.Join(append(text, "gates="+state.Spec.Gates), " ")
}

func awaitState(ctx context.Context, t *testing.T, state *v1alpha1.TSNNode, want string) {
	t.Helper()
	await(ctx, t, state, func() error {
		if got := describeState(state); got != want {
			return fmt.Errorf("node %s is asked for %s, want %s", state.Name, got, want)
		}
		return nil
	})
}

// peersOf are the peers of a network: by object, the names of its nodes.
func peersOf(ctx context.Context, network string) (map[string][]string, error) {
	var list v1alpha1.TSNPeersList
	if err := admin.List(ctx, &list, client.MatchingLabels{v1alpha1.NetworkLabel: network}); err != nil {
		return nil, err
	}
	shards := map[string][]string{}
	for _, peers := range list.Items {
		for _, node := range peers.Spec.Nodes {
			shards[peers.Name] = append(shards[peers.Name], node.Name)
		}
	}
	return shards, nil
}

func awaitPeers(ctx context.Context, t *testing.T, network, want string) {
	t.Helper()
	eventually(ctx, t, func() error {
		got, err := peersOf(ctx, network)
		if err != nil {
			return err
		}
		if fmt.Sprint(got) != want {
			return fmt.Errorf("the peers of %s are %v, want %s", network, got, want)
		}
		return nil
	})
}

func TestNodeState(t *testing.T) {
	ctx := needOperator(t)
	first, second, node := newNetwork("told-1", 230, "10.230.0.0/16"), newNetwork("told-2", 231, "10.231.0.0/16"), newNode("told-node")
	second.Spec.TrafficClasses = &v1alpha1.TrafficClasses{}
	create(ctx, t, node, first, second)
	firstPod := onNetwork("told-one", "default", "told-1", "told-node")
	create(ctx, t, firstPod)
	state := stateOf("told-node")
	awaitState(ctx, t, state, "told-1=10.230.0.0/24,1 gates=told-2")
	if owners := state.OwnerReferences; len(owners) != 1 || owners[0].Kind != "Node" || owners[0].UID != node.UID {
		t.Errorf("the TSNNode is of %+v, and does not go with its node", owners)
	}
	awaitPeers(ctx, t, "told-1", "map[told-1-0:[told-node]]")
	awaitPeers(ctx, t, "told-2", "map[]")
	two := onNetwork("told-two", "default", "told-1,told-2", "told-node")
	create(ctx, t, two)
	awaitState(ctx, t, state, "told-1=10.230.0.0/24,2 told-2=10.231.0.0/24,1 gates=told-2")
	// The operator overwrites changes by others.
	must(t, operatorWithAllRights(t).Patch(ctx, state, mergePatch(`{"spec":{"networks":[],"gates":"x"}}`)))
	awaitState(ctx, t, state, "told-1=10.230.0.0/24,2 told-2=10.231.0.0/24,1 gates=told-2")
	remove(ctx, t, firstPod)
	remove(ctx, t, two)
	// It keeps its parts without pods, and is no peer any more when its agent goes.
	awaitState(ctx, t, state, "told-1=10.230.0.0/24,0 told-2=10.231.0.0/24,0 gates=told-2")
	awaitPeers(ctx, t, "told-1", "map[]")
	remove(ctx, t, second)
	awaitState(ctx, t, state, "told-1=10.230.0.0/24,0 gates=")
	remove(ctx, t, node)
	awaitGone(ctx, t, state)
}

func TestPeerAddresses(t *testing.T) {
	ctx := needOperator(t)
	network := newNetwork("where", 232, "10.232.0.0/16")
	network.Spec.IPv6 = &v1alpha1.Range6{CIDR: "fd32::/48", NodePrefixLength: 64}
	good, without := newNode("where-good"), newNode("where-without")
	without.Status.Addresses = nil
	create(ctx, t, good, without, network)
	create(ctx, t, onNetwork("where-one", "default", "where", "where-good"), onNetwork("where-two", "default", "where", "where-without"))
	awaitPeers(ctx, t, "where", "map[where-0:[where-good]]")
	condition(ctx, t, network, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNodeLeftOut, "node where-without: it is not reached on network where: it has no IPv4 InternalIP; annotate it with kubernetsn.io/tunnel-address")
	if problem := network.Status.NodeProblems[0]; problem.Node != "where-without" || problem.Reason != v1alpha1.ReasonNodeLeftOut {
		t.Errorf("the first problem is %+v", problem)
	}
	awaitEvent(ctx, t, "default", "where-without", v1alpha1.ReasonTSNNodeLeftOut)
	annotate := func(node *corev1.Node, address string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.TunnelAddressAnnotation, address)
		mustPatch(ctx, t, node, patch)
	}
	annotate(without, "198.51.100.7")
	awaitPeers(ctx, t, "where", "map[where-0:[where-good where-without]]")
	var peers v1alpha1.TSNPeers
	must(t, admin.Get(ctx, client.ObjectKey{Name: "where-0"}, &peers))
	want := v1alpha1.PeerNode{Name: "where-without", Address: "198.51.100.7", IPv4: "10.232.1.0/24", IPv6: "fd32:0:0:1::/64"}
	if peers.Spec.Network != "where" || peers.Spec.Cluster != "" || !equality.Semantic.DeepEqual(peers.Spec.Nodes[1], want) {
		t.Errorf("the peers are %+v, want %+v among them", peers.Spec, want)
	}
	if owners := peers.OwnerReferences; len(owners) != 1 || owners[0].Kind != "TSNNetwork" || owners[0].UID != network.UID {
		t.Errorf("the peers are of %+v, and do not go with their network", owners)
	}
	// A node keeps its address, whatever an older node names or reports.
	annotate(good, "198.51.100.7")
	awaitPeers(ctx, t, "where", "map[where-0:[where-without]]")
	awaitEvent(ctx, t, "default", "where-good", v1alpha1.ReasonTSNNodeLeftOut)
	annotate(good, "")
	awaitPeers(ctx, t, "where", "map[where-0:[where-good where-without]]")
	for _, step := range []struct{ reported, peers string }{
		{"198.51.100.7", "map[where-0:[where-without]]"},
		{good.Status.Addresses[0].Address, "map[where-0:[where-good where-without]]"},
	} {
		patch := fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":%q}]}}`, step.reported)
		mustPatchStatus(ctx, t, good.DeepCopy(), patch)
		awaitPeers(ctx, t, "where", step.peers)
	}
	annotate(without, good.Status.Addresses[0].Address)
	awaitPeers(ctx, t, "where", "map[where-0:[where-good]]")
}

func TestAgentReport(t *testing.T) {
	ctx := needOperator(t)
	network, node := newNetwork("counts", 233, "10.233.0.0/16"), newNode("counts-node")
	network.Spec.TrafficClasses = &v1alpha1.TrafficClasses{}
	create(ctx, t, node, network)
	create(ctx, t, onNetwork("counts-one", "default", "counts", "counts-node"))
	state := stateOf("counts-node")
	awaitState(ctx, t, state, "counts=10.233.0.0/24,1 gates=counts")
	condition(ctx, t, network, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNodeWaited)
	say := func(status metav1.ConditionStatus, reason, text, hash string) {
		t.Helper()
		await(ctx, t, state, func() error {
			state.Status = v1alpha1.TSNNodeStatus{AgentVersion: "1", Networks: []v1alpha1.NodeNetworkStatus{{
				Name: "counts", ObservedGeneration: network.Generation, Uplink: "eno1", ScheduleHash: hash,
				Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: text,
					LastTransitionTime: metav1.Now(), ObservedGeneration: network.Generation}},
			}}}
			return admin.Status().Update(ctx, state)
		})
	}
	say(metav1.ConditionFalse, v1alpha1.ReasonUplinkMissing, "there is no interface eno9", "")
	text := condition(ctx, t, network, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonUplinkMissing)
	if text != "node counts-node: there is no interface eno9" {
		t.Errorf("got %q", text)
	}
	if got := fmt.Sprintf("%+v", network.Status.NodeProblems); got != "[{Node:counts-node Type:Ready Reason:UplinkMissing Message:there is no interface eno9}]" {
		t.Errorf("the problems are %s", got)
	}
	say(metav1.ConditionTrue, v1alpha1.ReasonAsAsked, "", network.Status.Schedule.Hash)
	// After a while without an agent that is ready nobody knows whether it still holds.
	text = condition(ctx, t, network, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNodeSilent)
	if !strings.Contains(text, "node counts-node: it has no ready agent") || network.Status.NodesReady != "0/1" {
		t.Errorf("got %q of %s nodes", text, network.Status.NodesReady)
	}
	makeAgent(ctx, t, "counts-node")
	condition(ctx, t, network, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
	want := v1alpha1.NodeCounts{Allocated: 1, WithPods: 1, Ready: 1, ScheduleOperational: 1}
	if got := network.Status.NodeCounts; got == nil || *got != want || network.Status.NodesReady != "1/1" || len(network.Status.NodeProblems) > 0 {
		t.Errorf("the status is %+v, want %+v", network.Status, want)
	}
}

// TestAgentWritesOnlyItsTSNNode uses an agent with all rights, which only the policy limits.
func TestAgentWritesOnlyItsTSNNode(t *testing.T) {
	ctx := needPolicy(t)
	create(ctx, t, newNetwork("states", 235, "10.235.0.0/16"), newNode("own-state"), newNode("others-state"))
	for _, node := range []string{"own-state", "others-state"} {
		create(ctx, t, onNetwork(node, "default", "states", node))
		eventually(ctx, t, func() error { return get(ctx, stateOf(node)) })
	}
	const (
		others  = "ktsn-agent on node own-state may not report for node others-state"
		noSpec  = "ktsn-agent may change only the status of a TSNNode"
		nobody  = "does not name its node"
		status  = `{"status":{"agentVersion":"1"}}`
		newSpec = `{"spec":{"gates":"x"}}`
	)
	for name, test := range map[string]struct {
		node, target, patch string
		status              bool
		sentence            string
	}{
		"what its node says":                  {"own-state", "own-state", status, true, ""},
		"the same from nobody knows":          {"", "own-state", status, true, nobody},
		"what another node says":              {"own-state", "others-state", status, true, others},
		"what its node shall do":              {"own-state", "own-state", newSpec, false, noSpec},
		"what another node shall do":          {"own-state", "others-state", newSpec, false, noSpec},
		"what its node says, past the status": {"own-state", "own-state", status, false, noSpec},
	} {
		t.Run(name, func(t *testing.T) {
			agent := agentOf(t, test.node)
			patch := mergePatch(test.patch)
			err := agent.Patch(ctx, stateOf(test.target), patch, client.DryRunAll)
			if test.status {
				err = agent.Status().Patch(ctx, stateOf(test.target), patch, client.DryRunAll)
			}
			checkRefusal(t, "", err, test.sentence)
		})
	}
	agent := agentOf(t, "new-state")
	checkRefusal(t, "", agent.Create(ctx, stateOf("new-state"), client.DryRunAll), noSpec)
	agent = agentOf(t, "own-state")
	checkRefusal(t, "", agent.Delete(ctx, stateOf("own-state"), client.DryRunAll), noSpec)
}

// TestAgentRights uses the rights of the chart's ClusterRole.
func TestAgentRights(t *testing.T) {
	ctx := needOperator(t)
	network := newNetwork("rights", 238, "10.238.0.0/16")
	create(ctx, t, newNode("rights-node"), network)
	create(ctx, t, onNetwork("rights-one", "default", "rights", "rights-node"))
	awaitPeers(ctx, t, "rights", "map[rights-0:[rights-node]]")
	account := accountOf("ktsn-agent")
	account.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {"rights-node"}}
	agent, err := client.New(account, client.Options{Scheme: scheme})
	must(t, err)
	patch := func(text string) client.Patch { return mergePatch(text) }
	peers := newPeers("rights-0", "rights")
	const forbidden = "is forbidden"
	for name, test := range map[string]struct {
		err      error
		sentence string
	}{
		"read networks":    {agent.List(ctx, &v1alpha1.TSNNetworkList{}), ""},
		"read TSNNodes":    {agent.List(ctx, &v1alpha1.TSNNodeList{}), ""},
		"read peers":       {agent.List(ctx, &v1alpha1.TSNPeersList{}), ""},
		"report":           {agent.Status().Patch(ctx, stateOf("rights-node"), patch(`{"status":{"agentVersion":"1"}}`), client.DryRunAll), ""},
		"replace a report": {agent.Status().Update(ctx, stateOf("rights-node"), client.DryRunAll), forbidden},
		"ask a node":       {agent.Patch(ctx, stateOf("rights-node"), patch(`{"spec":{"gates":"x"}}`), client.DryRunAll), forbidden},
		"write a status":   {agent.Status().Patch(ctx, network.DeepCopy(), patch(`{"status":{"pods":7}}`), client.DryRunAll), forbidden},
		"set a condition of a pod": {agent.Status().Patch(ctx, onNetwork("rights-one", "default", "rights", ""), client.RawPatch(types.StrategicMergePatchType,
			[]byte(`{"status":{"conditions":[{"type":"kubernetsn.io/attached","status":"True"}]}}`)), client.DryRunAll), ""},
		"change a pod":     {agent.Patch(ctx, onNetwork("rights-one", "default", "rights", ""), patch(`{"metadata":{"labels":{"a":"b"}}}`), client.DryRunAll), forbidden},
		"change peers":     {agent.Patch(ctx, peers.DeepCopy(), patch(`{"spec":{"nodes":[]}}`), client.DryRunAll), forbidden},
		"remove peers":     {agent.Delete(ctx, peers.DeepCopy(), client.DryRunAll), forbidden},
		"change a network": {agent.Patch(ctx, network.DeepCopy(), patch(`{"spec":{"mtu":1400}}`), client.DryRunAll), forbidden},
	} {
		checkRefusal(t, name, test.err, test.sentence)
	}
}

func TestOperatorWritesOnlyOwnPeers(t *testing.T) {
	ctx := needPolicy(t)
	operator := operatorWithAllRights(t)
	const sentence = "only TSNPeers without spec.cluster"
	foreign := newPeers("foreign-0", "foreign")
	foreign.Spec.Cluster = "plant-2"
	create(ctx, t, foreign)
	for name, test := range map[string]struct {
		err      error
		sentence string
	}{
		"its own":            {operator.Create(ctx, newPeers("foreign-1", "foreign"), client.DryRunAll), ""},
		"another's":          {operator.Create(ctx, func() *v1alpha1.TSNPeers { p := newPeers("foreign-1", "foreign"); p.Spec.Cluster = "x"; return p }(), client.DryRunAll), sentence},
		"another's, removed": {operator.Delete(ctx, foreign.DeepCopy(), client.DryRunAll), sentence},
		"another's, its own": {operator.Patch(ctx, foreign.DeepCopy(), mergePatch(`{"spec":{"cluster":""}}`), client.DryRunAll), sentence},
	} {
		checkRefusal(t, name, test.err, test.sentence)
	}
	// Beside them the operator writes its own.
	node, network := newNode("foreign-node"), newNetwork("foreign", 234, "10.234.0.0/16")
	create(ctx, t, node, network)
	create(ctx, t, onNetwork("foreign-one", "default", "foreign", "foreign-node"))
	eventually(ctx, t, func() error {
		shards, err := peersOf(ctx, "foreign")
		if err != nil {
			return err
		}
		for _, nodes := range shards {
			if slices.Contains(nodes, "foreign-node") {
				return nil
			}
		}
		return errNotYet
	})
}

// The operator signs the keys that a node's agent announces.
func TestOnlyAgentReportsKeys(t *testing.T) {
	ctx := needPolicy(t)
	create(ctx, t, newNode("announced-node"), newNetwork("announced", 209, "10.209.0.0/16"))
	create(ctx, t, onNetwork("announced-one", "default", "announced", "announced-node"))
	eventually(ctx, t, func() error { return get(ctx, stateOf("announced-node")) })
	agent := agentOf(t, "announced-node")
	const agents = "only the ktsn-agent of the node may write keys, sender and encryptionUnavailable of a TSNNode's status"
	for what, test := range map[string]struct{ status, sentence string }{
		"keys":                       {`"keys":[{"id":"a","algorithm":"X25519","publicKey":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","notBefore":"2026-11-28T08:00:00Z"}]`, agents},
		"generations":                {`"sender":{"kernel":1,"ktsnd":4}`, agents},
		"why it cannot encrypt":      {`"encryptionUnavailable":"it has no ESP"`, agents},
		"something that is no key's": {`"agentVersion":"1"`, ""},
	} {
		patch := mergePatch(`{"status":{` + test.status + `}}`)
		checkRefusal(t, "somebody says "+what, admin.Status().Patch(ctx, stateOf("announced-node"), patch, client.DryRunAll), test.sentence)
		checkRefusal(t, "its agent says "+what, agent.Status().Patch(ctx, stateOf("announced-node"), patch, client.DryRunAll), "")
	}
}
