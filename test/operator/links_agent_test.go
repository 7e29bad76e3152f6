// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// conditionsOf are conditions as an agent applies them.
func conditionsOf(status string, names ...string) string {
	var all []string
	for _, name := range names {
		all = append(all, fmt.Sprintf(`{"type":%q,"status":%q,"reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}`, name, status))
	}
	return `"conditions":[` + strings.Join(all, ",") + `]`
}

// TestAgentReportsOnlyItsEnd has it apply status, as agents do, to a link of which both ends have said something.
func TestAgentReportsOnlyItsEnd(t *testing.T) {
	ctx := needPolicy(t)
	end := func(node, address string) v1alpha1.LinkEnd {
		return v1alpha1.LinkEnd{Namespace: "default", Pod: "p", UID: "u-" + node, Node: node, NodeAddress: "192.0.2.1", Interface: "up", Addresses: []string{address}}
	}
	link := &v1alpha1.TSNLink{ObjectMeta: metav1.ObjectMeta{Name: "said-by-agents", Namespace: "default", Labels: map[string]string{v1alpha1.LinkMakerLabel: v1alpha1.MakerFederator}},
		Spec: v1alpha1.TSNLinkSpec{Service: "s", VNI: v1alpha1.FirstLinkVNI, Client: end("of-client", "10.0.0.0/31"), Endpoint: end("of-endpoint", "10.0.0.1/31")}}
	create(ctx, t, link)
	apply := func(node, owner, status string, options ...client.SubResourcePatchOption) error {
		agent := agentOf(t, node)
		text := fmt.Sprintf(`{"apiVersion":"kubernetsn.io/v1alpha1","kind":"TSNLink","metadata":{"name":%q,"namespace":"default"},"status":{%s}}`, link.Name, status)
		options = append(options, client.FieldOwner(owner), client.ForceOwnership)
		return agent.Status().Patch(ctx, link.DeepCopy(), client.RawPatch(types.ApplyPatchType, []byte(text)), options...)
	}
	for node, status := range map[string]string{
		"of-client":   conditionsOf("False", "ClientPlugged", "Up") + `,"measuredMTU":1450,"since":"2026-01-01T00:00:00.000000Z"`,
		"of-endpoint": conditionsOf("False", "EndpointPlugged"),
	} {
		if err := apply(node, node, status); err != nil {
			t.Fatalf("the agent of node %s may not say what is its to say: %v", node, err)
		}
	}
	const notIts = "what the agent of its other end reports"
	for name, test := range map[string]struct{ node, status, sentence string }{
		"the client's, of its own":            {"of-client", conditionsOf("True", "ClientPlugged", "Up") + `,"measuredMTU":1400`, ""},
		"the client's, of the endpoint":       {"of-client", conditionsOf("True", "EndpointPlugged"), notIts},
		"the endpoint's, of its own":          {"of-endpoint", conditionsOf("True", "EndpointPlugged"), ""},
		"the endpoint's, that the link is up": {"of-endpoint", conditionsOf("True", "Up"), notIts},
		"the endpoint's, of the client":       {"of-endpoint", conditionsOf("True", "ClientPlugged"), notIts},
		"the endpoint's, of the MTU":          {"of-endpoint", conditionsOf("False", "EndpointPlugged") + `,"measuredMTU":9000`, notIts},
		"the endpoint's, since when":          {"of-endpoint", conditionsOf("False", "EndpointPlugged") + `,"since":"2026-01-02T00:00:00.000000Z"`, notIts},
		"the endpoint's, of anything":         {"of-endpoint", conditionsOf("True", "Anything"), notIts},
		"another node's":                      {"of-nobody", conditionsOf("True", "Up"), "which has no end there"},
	} {
		t.Run(name, func(t *testing.T) {
			checkRefusal(t, "", apply(test.node, test.node, test.status, client.DryRunAll), test.sentence)
		})
	}
	t.Run("the endpoint's, by taking what the client's has said away", func(t *testing.T) {
		checkRefusal(t, "", apply("of-endpoint", "of-client", conditionsOf("False", "ClientPlugged"), client.DryRunAll), notIts)
	})
}
