// SPDX-License-Identifier: Apache-2.0

//go:build federation

package federation

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

// scaleAgent stops or starts a member's agent.
func (p *place) scaleAgent(ctx context.Context, t *testing.T, replicas int32) {
	t.Helper()
	if err := kube.Scale(ctx, p.client, agentSystem, "karmada-agent", replicas); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, p.runs(agentSystem, "karmada-agent", replicas))
}

// place deploys to clusters by `ktsn fed`.
func (f *federator) place(ctx context.Context, namespace, name string, replicas int, clusters string) {
	f.t.Helper()
	f.write(name+".yaml", deployment(namespace, name, replicas))
	f.run(ctx, "deploy", namespace+"/"+name, "-f", filepath.Join(f.folder, name+".yaml"), "--clusters", clusters)
}

// TestAgentReturnsAfterLongAbsence tests for Karmada's issue 5406.
func TestAgentReturnsAfterLongAbsence(t *testing.T) {
	ctx, f := needFederator(t)
	namespace, near, far := newNamespace(ctx, t), members[0], members[1]
	all := map[string]string{"stays": far.as, "changes": far.as, "moves": far.as, "goes": far.as, "returns": far.as, "forgotten": far.as}
	for name, on := range all {
		f.place(ctx, namespace, name, 1, on)
		t.Cleanup(func() { f.remove(context.WithoutCancel(ctx), namespace, name) })
	}
	before := map[string]string{}
	for name := range all {
		await(ctx, t, far.runs(namespace, name, 1))
		before[name] = far.uid(ctx, t, namespace, name)
	}
	far.scaleAgent(ctx, t, 0)
	t.Cleanup(func() { far.scaleAgent(context.WithoutCancel(ctx), t, 1) })
	// The agent is away, and back before the hub notices: the hub still has the cluster's last status.
	f.run(ctx, "move", namespace+"/returns", "--to", near.as)
	if output, err := f.try(ctx, "move", namespace+"/returns", "--to", far.as, "--timeout", "10s"); err == nil {
		t.Errorf("it has moved back to a cluster whose agent is away: %s", output)
	}
	took(t, "the hub has noticed after", func() {
		await(ctx, t, func(ctx context.Context) error {
			if kube.MemberReady(hub.client, far.as)(ctx) == nil {
				return errors.New("the hub finds the member ready whose agent is away")
			}
			return nil
		})
	})
	f.place(ctx, namespace, "changes", 2, far.as)
	f.run(ctx, "move", namespace+"/moves", "--to", near.as)
	f.run(ctx, "delete", namespace+"/goes")
	// Delete the hub's policy and objects, as if the hub had lost them.
	f.forget(ctx, namespace, "forgotten")
	if output, err := f.try(ctx, "move", namespace+"/moves", "--to", far.as, "--timeout", "10s"); err == nil {
		t.Errorf("it has moved to a cluster whose agent is away: %s", output)
	}
	for name := range all {
		if far.uid(ctx, t, namespace, name) != before[name] {
			t.Errorf("%s is another although the agent is away", name)
		}
	}
	far.scaleAgent(ctx, t, 1)
	took(t, "the member has all that was asked for after", func() {
		await(ctx, t, kube.MemberReady(hub.client, far.as))
		await(ctx, t, far.runs(namespace, "changes", 2))
		for _, name := range []string{"moves", "goes", "returns"} {
			await(ctx, t, far.without(namespace, name))
		}
	})
	for _, name := range []string{"moves", "returns"} {
		await(ctx, t, near.runs(namespace, name, 1))
	}
	time.Sleep(firstFew) // in which the agent looks at all once more
	for _, name := range []string{"stays", "changes", "forgotten"} {
		if far.uid(ctx, t, namespace, name) != before[name] {
			t.Errorf("%s was removed by the agent that came back", name)
		}
	}
	f.run(ctx, "move", namespace+"/returns", "--to", far.as)
	await(ctx, t, far.runs(namespace, "returns", 1))
	if err := far.client.AppsV1().Deployments(namespace).Delete(ctx, "forgotten", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// uid returns the UID of a member's Deployment.
func (p *place) uid(ctx context.Context, t *testing.T, namespace, name string) string {
	t.Helper()
	deployment, err := p.now(ctx, namespace, name)
	if err != nil {
		t.Error(err)
		return ""
	}
	return string(deployment.UID)
}

// forget removes a workload from the hub by deleting Karmada's objects, without the federator.
func (f *federator) forget(ctx context.Context, namespace, name string) {
	f.t.Helper()
	errPolicy := hub.dynamic.Resource(policies).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	errObject := hub.client.AppsV1().Deployments(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	errReport := hub.dynamic.Resource(v1alpha1.GroupVersion.WithResource("tsnworkloads")).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err := errors.Join(errPolicy, errObject, errReport); err != nil {
		f.t.Fatal(err)
	}
}

func TestFiveHundredObjects(t *testing.T) {
	ctx, f := needFederator(t)
	namespace := newNamespace(ctx, t)
	const workloads, each = 5, 100
	names := make([]string, workloads)
	took(t, "500 objects, from the first ktsn fed deploy until both members have all", func() {
		for i := range names {
			names[i] = fmt.Sprintf("large-%d", i)
			f.write("large.yaml", configMaps(names[i], each))
			took(t, "ktsn fed deploy of 100 objects", func() {
				f.run(ctx, "deploy", namespace+"/"+names[i], "-f", filepath.Join(f.folder, "large.yaml"), "--clusters", members[0].as+","+members[1].as)
			})
		}
		for _, member := range members {
			await(ctx, t, member.hasConfigMaps(namespace, "large-", workloads*each))
		}
	})
	took(t, "ktsn fed where of all", func() { f.run(ctx, "where", namespace) })
	took(t, "and from the first ktsn fed delete until both have none", func() {
		for _, name := range names {
			took(t, "ktsn fed delete of 100 objects", func() { f.run(ctx, "delete", namespace+"/"+name) })
		}
		for _, member := range members {
			await(ctx, t, member.hasConfigMaps(namespace, "large-", 0))
		}
	})
}
