// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// agentOf is an agent with the token of a pod on a node, "" for one that does not say which. It has all rights, so that it is the
// policy that refuses.
func agentOf(node string) (client.Client, error) {
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + system + ":ktsn-agent", Groups: []string{"system:masters"},
		Extra: map[string][]string{"authentication.kubernetes.io/pod-name": {"ktsn-node-x"}},
	}
	if node != "" {
		as.Impersonate.Extra["authentication.kubernetes.io/node-name"] = []string{node}
	}
	return client.New(as, client.Options{Scheme: scheme})
}

// What an agent may change of a network's status is what its own node says.
func TestAnAgentSpeaksForItsOwnNodeOnly(t *testing.T) {
	ctx := needPolicy(t)
	create(ctx, t, newNode("speaks"), newNode("other"))
	network := newNetwork("spoken-of", 220, "10.220.0.0/16")
	create(ctx, t, network)
	create(ctx, t, onNetwork("speaks", "default", "spoken-of", "speaks"), onNetwork("other", "default", "spoken-of", "other"))
	// The operator has seen it, and has no more to say.
	eventually(ctx, t, func() error {
		if err := get(ctx, network); err != nil {
			return err
		}
		if len(network.Status.Conditions) == 0 || len(network.Status.Nodes) != 2 || network.Status.Nodes[0].Pods == nil || network.Status.Nodes[1].Pods == nil {
			return errNotYet
		}
		return nil
	})
	at := func(name string) int {
		for i := range network.Status.Nodes {
			if network.Status.Nodes[i].Name == name {
				return i
			}
		}
		t.Fatalf("the network has no node %s", name)
		return -1
	}
	own, other := at("speaks"), at("other")
	const (
		rest   = "may change no more than the entry of its own node"
		others = "ktsn-agent on node speaks may not change what a network's status says of other nodes"
		part   = "node speaks has its part of a network from ktsn-operator"
		nobody = "does not say on which node it is"
	)
	speak := func(status *v1alpha1.NodeStatus) {
		status.Uplink, status.LinkSpeed, status.ScheduleHash = "eth9", "10Gbps", "hash"
		status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Said", LastTransitionTime: metav1.Now()}}
	}
	for name, test := range map[string]struct {
		node     string
		change   func(*v1alpha1.TSNNetworkStatus)
		sentence string
	}{
		"nothing":                       {"speaks", func(*v1alpha1.TSNNetworkStatus) {}, ""},
		"what its node says":            {"speaks", func(s *v1alpha1.TSNNetworkStatus) { speak(&s.Nodes[own]) }, ""},
		"the same from another node":    {"other", func(s *v1alpha1.TSNNetworkStatus) { speak(&s.Nodes[own]) }, "ktsn-agent on node other may not"},
		"the same from nobody knows":    {"", func(s *v1alpha1.TSNNetworkStatus) { speak(&s.Nodes[own]) }, nobody},
		"what another node says":        {"speaks", func(s *v1alpha1.TSNNetworkStatus) { speak(&s.Nodes[other]) }, others},
		"both":                          {"speaks", func(s *v1alpha1.TSNNetworkStatus) { speak(&s.Nodes[own]); speak(&s.Nodes[other]) }, others},
		"another node's part":           {"speaks", func(s *v1alpha1.TSNNetworkStatus) { s.Nodes[other].IPv4 = "10.220.3.0/24" }, others},
		"no other node any more":        {"speaks", func(s *v1alpha1.TSNNetworkStatus) { s.Nodes = s.Nodes[own : own+1] }, others},
		"no nodes any more":             {"speaks", func(s *v1alpha1.TSNNetworkStatus) { s.Nodes = nil }, others},
		"a node more":                   {"speaks", func(s *v1alpha1.TSNNetworkStatus) { s.Nodes = append(s.Nodes, v1alpha1.NodeStatus{Name: "new"}) }, others},
		"its own part":                  {"speaks", func(s *v1alpha1.TSNNetworkStatus) { s.Nodes[own].IPv4 = "10.220.3.0/24" }, part},
		"its own part of IPv6":          {"speaks", func(s *v1alpha1.TSNNetworkStatus) { s.Nodes[own].IPv6 = "fd00::/64" }, part},
		"the number of its pods":        {"speaks", func(s *v1alpha1.TSNNetworkStatus) { *s.Nodes[own].Pods = 7 }, part},
		"no entry of its own any more":  {"speaks", func(s *v1alpha1.TSNNetworkStatus) { s.Nodes = s.Nodes[other : other+1] }, part},
		"the network's conditions":      {"speaks", func(s *v1alpha1.TSNNetworkStatus) { s.Conditions[0].Message = "another" }, rest},
		"no conditions any more":        {"speaks", func(s *v1alpha1.TSNNetworkStatus) { s.Conditions = nil }, rest},
		"a schedule":                    {"speaks", func(s *v1alpha1.TSNNetworkStatus) { s.Schedule = &v1alpha1.ScheduleRequest{Hash: "x"} }, rest},
		"the number of all pods":        {"speaks", func(s *v1alpha1.TSNNetworkStatus) { s.Pods = 7 }, rest},
		"how many nodes are ready":      {"speaks", func(s *v1alpha1.TSNNetworkStatus) { s.NodesReady = "9/9" }, rest},
		"its entry, and the conditions": {"speaks", func(s *v1alpha1.TSNNetworkStatus) { speak(&s.Nodes[own]); s.Conditions[0].Message = "another" }, rest},
	} {
		t.Run(name, func(t *testing.T) {
			agent, err := agentOf(test.node)
			if err != nil {
				t.Fatal(err)
			}
			changed := network.DeepCopy()
			test.change(&changed.Status)
			err = agent.Status().Patch(ctx, changed, client.MergeFrom(network), client.DryRunAll)
			if err := says(err, test.sentence); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("as the agent does it, by server-side apply", func(t *testing.T) {
		agent, err := agentOf("speaks")
		if err != nil {
			t.Fatal(err)
		}
		text := `{"apiVersion":"kubernetsn.io/v1alpha1","kind":"TSNNetwork","metadata":{"name":"spoken-of"},"status":{"nodes":[{"name":"NODE","uplink":"eth1"}]}}`
		for node, sentence := range map[string]string{"speaks": "", "other": others, "new": others} {
			patch := client.RawPatch(types.ApplyPatchType, []byte(strings.Replace(text, "NODE", node, 1)))
			err := agent.Status().Patch(ctx, network.DeepCopy(), patch, client.FieldOwner("ktsn-agent-speaks"), client.ForceOwnership, client.DryRunAll)
			if err := says(err, sentence); err != nil {
				t.Errorf("node %s: %v", node, err)
			}
		}
	})
}

// The operator counts on it: what it gives by what it knew of a network is not written over what it did not know.
func TestWhatIsAppliedToAVersionThatIsPastIsAConflict(t *testing.T) {
	ctx := needServer(t)
	network := newNetwork("versions", 221, "10.221.0.0/16")
	create(ctx, t, network)
	text := fmt.Sprintf(`{"apiVersion":"kubernetsn.io/v1alpha1","kind":"TSNNetwork","metadata":{"name":%q,"resourceVersion":%q},"status":{"pods":2}}`,
		network.Name, network.ResourceVersion)
	change(ctx, t, network, func() { network.Labels = map[string]string{"changed": "since"} })
	err := admin.Status().Patch(ctx, network.DeepCopy(), client.RawPatch(types.ApplyPatchType, []byte(text)),
		client.FieldOwner("somebody"), client.ForceOwnership)
	if !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
}
