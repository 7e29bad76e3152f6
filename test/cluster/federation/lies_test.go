// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// asAgent returns a client of the hub with the credentials of a member's agent, which anybody with access to the member
// can read.
func (p *place) asAgent(ctx context.Context, t *testing.T) dynamic.Interface {
	t.Helper()
	secret, err := p.client.CoreV1().Secrets(agentSystem).Get(ctx, "karmada-kubeconfig", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["karmada-kubeconfig"])
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// lie sets the nodes in a member's report about network line.
func (p *place) lie(ctx context.Context, agent dynamic.Interface, nodes ...v1alpha1.PeerNode) error {
	client := agent.Resource(works).Namespace("karmada-es-" + p.as)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		statuses, _, _ := unstructured.NestedSlice(list.Items[i].Object, "status", "manifestStatuses")
		for _, status := range statuses {
			fields, _ := status.(map[string]any)
			kind, _, _ := unstructured.NestedString(fields, "identifier", "kind")
			name, _, _ := unstructured.NestedString(fields, "identifier", "name")
			if kind != "TSNNetwork" || name != "line" {
				continue
			}
			reported, _, _ := unstructured.NestedMap(fields, "status")
			if reported == nil {
				reported = map[string]any{}
			}
			text, err := json.Marshal(nodes)
			if err != nil {
				return err
			}
			var peers []any
			if err := json.Unmarshal(text, &peers); err != nil {
				return err
			}
			reported["peers"], fields["status"] = peers, reported
			patch, err := json.Marshal(map[string]any{"status": map[string]any{"manifestStatuses": statuses}})
			if err != nil {
				return err
			}
			_, err = client.Patch(ctx, list.Items[i].GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
			return err
		}
	}
	return fmt.Errorf("%s has not reported network line", p.as)
}

// whileItLies repeats a member's lie until the hub reports it, because the agent keeps reporting the truth.
func (p *place) whileItLies(ctx context.Context, t *testing.T, says []string, nodes ...v1alpha1.PeerNode) {
	t.Helper()
	agent := p.asAgent(ctx, t)
	await(ctx, t, func(ctx context.Context) error {
		if err := p.lie(ctx, agent, nodes...); err != nil {
			return err
		}
		time.Sleep(time.Second) // until Karmada has carried it up, and the federator has looked at it
		network, err := hub.network(ctx, "line")
		if err != nil {
			return err
		}
		degraded := meta.FindStatusCondition(network.Status.Conditions, v1alpha1.ConditionDegraded)
		for _, words := range says {
			if degraded == nil || !strings.Contains(degraded.Message, words) {
				return fmt.Errorf("the hub's network says %+v, want %q", degraded, words)
			}
		}
		return nil
	})
}

// liesAreNotTold expects both members on network line, and to know both nodes.
func liesAreNotTold(ctx context.Context, t *testing.T) {
	honest, liar := members[0], members[1]
	theirs, err := honest.network(ctx, "line")
	if err != nil {
		t.Fatal(err)
	}
	network, err := liar.network(ctx, "line")
	if err != nil {
		t.Fatal(err)
	}
	address, ipv6 := liar.ControlPlane().Address.String(), inside(network.Spec.IPv6.Part, 64)
	liar.whileItLies(ctx, t,
		[]string{"nodes of cluster " + liar.as + " are not passed on", `node "thief"`, "which is not in its cluster's part", `node "mirror"`, "has the address of a node of cluster " + honest.as},
		v1alpha1.PeerNode{Name: "thief", Address: address, IPv4: inside(theirs.Spec.IPv4.Part, 24), IPv6: ipv6},
		v1alpha1.PeerNode{Name: "mirror", Address: honest.ControlPlane().Address.String(), IPv4: inside(network.Spec.IPv4.Part, 24), IPv6: ipv6},
	)
	list, err := honest.dynamic.Resource(peers).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		text, err := list.Items[i].MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "thief") || strings.Contains(string(text), "mirror") {
			t.Errorf("%s was told %s", honest.as, text)
		}
	}
	// Other members get the truth again once the agent reports it: it reports changes in its cluster.
	liar.changeStatus(ctx, t)
	await(ctx, t, honest.knowsNodesOf(liar))
}

// inside returns the first subnet of a prefix with that many bits.
func inside(part string, bits int) string {
	address, _, _ := strings.Cut(part, "/")
	return fmt.Sprintf("%s/%d", address, bits)
}

// changeStatus makes the agent report network line again.
func (p *place) changeStatus(ctx context.Context, t *testing.T) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata": {"annotations": {"looked-at": %q}}}`, time.Now())
	if _, err := p.dynamic.Resource(networks).Patch(ctx, "line", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// ofAnotherHub is a network as another hub's agent would create it in a member: like network line, with another name.
const ofAnotherHub = `
---
apiVersion: kubernetsn.io/v1alpha1
kind: TSNNetwork
metadata: {name: %s, labels: {karmada.io/managed: "true"}, annotations: {work.karmada.io/namespace: karmada-es-other, work.karmada.io/name: other}}
spec: {vni: %d, ipv4: {cidr: %s, part: %s}}
`

// anotherHubGivesWay applies networks of a second hub to a member that is on line. There is no second hub: the test
// applies what its agent would.
func anotherHubGivesWay(ctx context.Context, t *testing.T) {
	member := members[0]
	before, err := member.network(ctx, "line")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		vni        int
		cidr, part string
		says       string
	}{
		"same-vni":   {78, "10.90.0.0/16", "10.90.0.0/20", "network line is older and has the same vni"},
		"same-range": {90, "10.78.128.0/17", "10.78.128.0/20", "network line is older and has addresses of the same range"},
	} {
		member.apply(ctx, t, fmt.Sprintf(ofAnotherHub, name, test.vni, test.cidr, test.part))
		t.Cleanup(func() {
			if err := member.dynamic.Resource(networks).Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
		await(ctx, t, func(ctx context.Context) error {
			network, err := member.network(ctx, name)
			if err != nil {
				return err
			}
			ready := meta.FindStatusCondition(network.Status.Conditions, v1alpha1.ConditionReady)
			if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != v1alpha1.ReasonOverlaps || !strings.Contains(ready.Message, test.says) {
				return fmt.Errorf("network %s says %+v, want %q", name, ready, test.says)
			}
			return nil
		})
	}
	after, err := member.network(ctx, "line")
	if err != nil {
		t.Fatal(err)
	}
	if after.UID != before.UID || after.Generation != before.Generation || !meta.IsStatusConditionTrue(after.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("network line was %+v and is %+v", before.ObjectMeta, after)
	}
}
