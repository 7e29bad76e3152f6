// SPDX-License-Identifier: Apache-2.0

//go:build bench

package federation

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/clustertest"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

// hasSettled fails while a pod of a member does not run or is being removed.
func (p *place) hasSettled(ctx context.Context) error {
	list, err := p.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodPending {
			return fmt.Errorf("%s: pod %s/%s is %s, removed since %v", p.Name, pod.Namespace, pod.Name, pod.Status.Phase, pod.DeletionTimestamp)
		}
	}
	return nil
}

// arrival is when a Deployment was created, and when it had its ready pods.
type arrival struct{ came, ready time.Time }

// arrives reports when a Deployment is created and has its ready pods, by a watch that begins now. The watch has a
// version: without one, an API server with an etcd before 3.5 would wait for a change of the kind.
func (p *place) arrives(ctx context.Context, t *testing.T, namespace, name string, replicas int32) <-chan arrival {
	t.Helper()
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
	list, err := p.client.AppsV1().Deployments(namespace).List(ctx, only)
	if err != nil {
		t.Fatal(err)
	}
	only.ResourceVersion = list.ResourceVersion
	watching, err := p.client.AppsV1().Deployments(namespace).Watch(ctx, only)
	if err != nil {
		t.Fatal(err)
	}
	at := make(chan arrival, 1)
	go func() {
		defer watching.Stop()
		var seen arrival
		for range watching.ResultChan() {
			if seen.came.IsZero() {
				seen.came = time.Now()
			}
			if p.runs(namespace, name, replicas)(ctx) == nil {
				seen.ready = time.Now()
				at <- seen
				return
			}
		}
	}()
	return at
}

// stages are the times from the command until the hub had the deployment, and until it was created and ready.
type stages struct{ hub, came, ready time.Duration }

// everywhereWithin measures the time from do until a Deployment runs in both members, and through the hub also until
// the hub has it.
func (b *bench) everywhereWithin(ctx context.Context, t *testing.T, name string, throughHub bool, do func() error) (took stages) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, clustertest.Patience)
	defer cancel()
	places := []*place{b.east, b.west}
	if throughHub {
		places = append(places, hub)
	}
	arriving := make([]<-chan arrival, len(places))
	for i, at := range places {
		replicas := int32(1)
		if at == hub {
			replicas = int32(len(members)) // of all of them
		}
		arriving[i] = at.arrives(ctx, t, b.namespace, name, replicas)
	}
	began := time.Now()
	if err := do(); err != nil {
		t.Fatal(err)
	}
	for i, at := range arriving {
		select {
		case seen := <-at:
			if places[i] == hub {
				took.hub = seen.came.Sub(began)
			} else {
				took.came, took.ready = max(took.came, seen.came.Sub(began)), max(took.ready, seen.ready.Sub(began))
			}
		case <-ctx.Done():
			t.Fatalf("%s: %s has not all of its pods within %v", places[i].Name, name, clustertest.Patience)
		}
	}
	return took
}

// applied applies a manifest to a member like `kubectl apply --server-side`, including the discovery of kinds.
func (p *place) applied(ctx context.Context, text string) error {
	applier, err := kube.NewApplier(p.config)
	if err != nil {
		return err
	}
	return applier.Apply(ctx, strings.NewReader(text))
}

// applyBoth applies a manifest in both members in parallel.
func (b *bench) applyBoth(ctx context.Context, text string) error {
	failed := make(chan error, 1)
	go func() { failed <- b.west.applied(ctx, text) }()
	if err := b.east.applied(ctx, text); err != nil {
		return err
	}
	return <-failed
}

// deploys is how often each way is measured.
const deploys = 10

// deploy compares a deployment by command to both members with direct ones.
func (b *bench) deploy(ctx context.Context, t *testing.T) {
	var direct, through []stages
	for turn := range times(deploys) {
		ways := []func(){
			func() {
				name := fmt.Sprintf("direct-%d", turn)
				direct = append(direct, b.everywhereWithin(ctx, t, name, false, func() error { return b.applyBoth(ctx, deployment(b.namespace, name, 1)) }))
				b.removeDirect(ctx, t, name)
			},
			func() {
				name := fmt.Sprintf("through-%d", turn)
				b.f.write(name, deployment(b.namespace, name, 1))
				through = append(through, b.everywhereWithin(ctx, t, name, true, func() error {
					_, err := b.f.try(ctx, "deploy", b.namespace+"/"+name, "-f", filepath.Join(b.f.folder, name), "--clusters", b.east.as+","+b.west.as)
					return err
				}))
				b.f.run(ctx, "delete", b.namespace+"/"+name)
			},
		}
		for i := range ways {
			ways[(turn+i)%len(ways)]()
			for _, member := range members {
				member.rests(ctx, t)
			}
		}
	}
	ready := func(s stages) time.Duration { return s.ready }
	b.add(t,
		ratioOfMedians("deploy to running in two clusters: `ktsn fed deploy` ÷ apply in both", staged(through, ready), staged(direct, ready)).most(1.3),
		over("`ktsn fed deploy` until it runs in both", "s", staged(through, ready)...),
		over("apply in both, side by side, until it runs in both", "s", staged(direct, ready)...),
	)
	rows := [][]string{{"seconds", "until the hub has the Deployment", "from there until both clusters have it", "from there until it runs in both"}}
	for name, all := range map[string][]stages{"`ktsn fed deploy`": through, "apply in both": direct} {
		rows = append(rows, []string{
			name, ranged(staged(all, func(s stages) time.Duration { return s.hub })), ranged(staged(all, func(s stages) time.Duration { return s.came - s.hub })),
			ranged(staged(all, func(s stages) time.Duration { return s.ready - s.came })),
		})
	}
	b.section("Deployments", fmt.Sprintf("Where the time goes, %d times each. The first part is the command, the federator and the hub's API server, the second Karmada's programs and\n"+
		"its agents, the third the clusters' own. \"Apply in both\" has no hub: its first part is 0, its second the API servers of the clusters.", len(direct)), rows)
}

// staged returns durations of deployments, in seconds.
func staged(all []stages, stage func(stages) time.Duration) []float64 {
	var values []float64
	for _, deployment := range all {
		values = append(values, stage(deployment).Seconds())
	}
	return values
}

// removeDirect removes a Deployment from both members and waits until it is gone.
func (b *bench) removeDirect(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	for _, member := range members {
		if err := member.client.AppsV1().Deployments(b.namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
