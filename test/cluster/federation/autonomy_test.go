// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// uids returns the UIDs of a Deployment in all members.
func uids(ctx context.Context, t *testing.T, namespace, name string) []types.UID {
	t.Helper()
	var all []types.UID
	for _, member := range members {
		deployment, err := member.now(ctx, namespace, name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, deployment.UID)
	}
	return all
}

// same fails the test if a member's Deployment was recreated.
func same(ctx context.Context, t *testing.T, namespace, name string, before []types.UID) {
	t.Helper()
	for i, uid := range uids(ctx, t, namespace, name) {
		if uid != before[i] {
			t.Errorf("%s: Deployment %s was %s before and is %s", members[i].Name, name, before[i], uid)
		}
	}
}

// frozenFor exceeds the hub's tolerance of expired member leases.
const frozenFor = 50 * time.Second

func TestFrozenHub(t *testing.T) {
	ctx := needFederation(t)
	namespace := newNamespace(ctx, t)
	hub.apply(ctx, t, deployment(namespace, "before", 1)+everywhere(namespace, "before"))
	for _, member := range members {
		await(ctx, t, member.runs(namespace, "before", 1))
	}
	before := uids(ctx, t, namespace, "before")

	thaw := func() {
		if err := hub.Thaw(plan.HubHost); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(thaw)
	began := time.Now()
	if err := hub.Freeze(plan.HubHost); err != nil {
		t.Fatal(err)
	}
	if err := kube.ControlPlaneReady(hub.client)(ctx); err == nil {
		t.Error("the hub is frozen and answers")
	}
	for _, member := range members {
		member.heals(ctx, t, namespace, "before", 1)
		member.apply(ctx, t, deployment(namespace, "meanwhile", 1))
		await(ctx, t, member.runs(namespace, "meanwhile", 1))
	}
	if !short() {
		time.Sleep(time.Until(began.Add(frozenFor)))
	}
	t.Logf("the hub was frozen for %.0f s", time.Since(began).Seconds())
	thaw()

	await(ctx, t, kube.ControlPlaneReady(hub.client))
	hub.apply(ctx, t, deployment(namespace, "before", 2))
	for _, member := range members {
		await(ctx, t, member.runs(namespace, "before", 2))
		await(ctx, t, member.runs(namespace, "meanwhile", 1))
		await(ctx, t, kube.MemberReady(hub.client, member.as))
	}
	same(ctx, t, namespace, "before", before)
}

// stillPlacedOn fails the test if Karmada has evicted a Deployment from a member.
func stillPlacedOn(ctx context.Context, t *testing.T, namespace, name string, member *place) {
	t.Helper()
	bindings := schema.GroupVersionResource{Group: "work.karmada.io", Version: "v1alpha2", Resource: "resourcebindings"}
	binding, err := hub.dynamic.Resource(bindings).Namespace(namespace).Get(ctx, name+"-deployment", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	clusters, _, _ := unstructured.NestedSlice(binding.Object, "spec", "clusters")
	evicting, _, _ := unstructured.NestedSlice(binding.Object, "spec", "gracefulEvictionTasks")
	if on := fmt.Sprint(clusters); !strings.Contains(on, member.as) || len(evicting) > 0 {
		t.Errorf("Deployment %s is placed on %s, and evicted from %v", name, on, evicting)
	}
}

func TestMemberCutOff(t *testing.T) {
	ctx := needFederation(t)
	namespace := newNamespace(ctx, t)
	near, far := members[0], members[len(members)-1]
	hub.apply(ctx, t, deployment(namespace, "cut", 1)+everywhere(namespace, "cut"))
	for _, member := range members {
		await(ctx, t, member.runs(namespace, "cut", 1))
	}
	before := uids(ctx, t, namespace, "cut")

	mend := func() {
		if err := hub.MendSite(context.WithoutCancel(ctx), far.Name); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(mend)
	if err := hub.CutSite(ctx, far.Name); err != nil {
		t.Fatal(err)
	}
	if err := near.ping(ctx, far); err == nil {
		t.Error("the nodes reach each other")
	}
	hub.apply(ctx, t, deployment(namespace, "cut", 2))
	await(ctx, t, near.runs(namespace, "cut", 2))
	far.heals(ctx, t, namespace, "cut", 1)
	if !short() {
		took(t, "the hub has noticed after", func() {
			await(ctx, t, func(ctx context.Context) error {
				if kube.MemberReady(hub.client, far.as)(ctx) == nil {
					return errors.New("the hub finds the member ready that it cannot hear")
				}
				return nil
			})
		})
		stillPlacedOn(ctx, t, namespace, "cut", far)
	}
	await(ctx, t, far.runs(namespace, "cut", 1)) // what a Deployment says of its pods is a moment old
	mend()
	took(t, "the member has the change after", func() { await(ctx, t, far.runs(namespace, "cut", 2)) })
	await(ctx, t, hub.runs(namespace, "cut", int32(2*len(members))))
	await(ctx, t, kube.MemberReady(hub.client, far.as))
	same(ctx, t, namespace, "cut", before)
}
