// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// agentOf returns the client of an agent with the token of a pod on a node, "" for one that does not name it. It has all rights, so that
// only the policy can refuse.
func agentOf(t *testing.T, node string) client.Client {
	t.Helper()
	return clientFor(t, agentAccount(node))
}

func agentAccount(node string) *rest.Config {
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + system + ":ktsn-agent", Groups: []string{"system:masters"},
		Extra: map[string][]string{"authentication.kubernetes.io/pod-name": {"ktsn-node-x"}},
	}
	if node != "" {
		as.Impersonate.Extra["authentication.kubernetes.io/node-name"] = []string{node}
	}
	return as
}

// The operator counts on it: what it gives by what it knew of a network is not written over what it did not know.
func TestStaleApplyIsConflict(t *testing.T) {
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
