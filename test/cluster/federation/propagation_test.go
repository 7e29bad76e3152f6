// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"testing"
)

func TestDeploymentRunsInAllMembers(t *testing.T) {
	ctx := needFederation(t)
	namespace := newNamespace(ctx, t)
	direct := took(t, "applied in each member, all pods are ready after", func() {
		for _, member := range members {
			member.apply(ctx, t, deployment(namespace, "direct", 1))
		}
		for _, member := range members {
			await(ctx, t, member.runs(namespace, "direct", 1))
		}
	})
	through := took(t, "applied at the hub, all pods are ready after", func() {
		hub.apply(ctx, t, deployment(namespace, "through", 1)+everywhere(namespace, "through"))
		for _, member := range members {
			await(ctx, t, member.runs(namespace, "through", 1))
		}
	})
	t.Logf("%.2f times as long", through.Seconds()/direct.Seconds())
	took(t, "the hub has the status of all after another", func() {
		await(ctx, t, hub.runs(namespace, "through", int32(len(members))))
	})
}

func TestMembersShareAddressRange(t *testing.T) {
	ctx := needFederation(t)
	namespace := newNamespace(ctx, t)
	hub.apply(ctx, t, deployment(namespace, "addressed", 1)+everywhere(namespace, "addressed"))
	ranges := map[string]bool{}
	for _, member := range members {
		await(ctx, t, member.runs(namespace, "addressed", 1))
		pod := member.pods(ctx, t, namespace, "addressed")[0]
		node, err := member.node(ctx, pod.Spec.NodeName)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: pod %s, node %s, of %s", member.as, pod.Status.PodIP, pod.Status.HostIP, node.Spec.PodCIDR)
		ranges[node.Spec.PodCIDR] = true
	}
	if len(ranges) != 1 {
		t.Errorf("they have %v, want one", ranges)
	}
}
