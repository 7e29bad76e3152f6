// SPDX-License-Identifier: Apache-2.0

//go:build healing

package federation

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/asker"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

const filteredAcross = `
apiVersion: kubernetsn.io/v1alpha1
kind: TSNService
metadata: {namespace: %s, name: filtered}
spec:
  ipv4: {linkCIDR: 10.63.0.0/16}
  clusters: [%s, %s]
  chain: [{name: filter, selector: {matchLabels: {app: between}}, forward: [IPv4]}]
`

// chain connects a client to an endpoint of its own cluster through a pod of the other one, and deletes that pod when
// there is another nearby.
func (w *watched) chain(ctx context.Context, t *testing.T) asker.Outcome {
	t.Helper()
	const element = "app: between, client.kubernetsn.io/filtered: next, endpoint.kubernetsn.io/filtered: before"
	w.west.apply(ctx, t, answeringPod(w.namespace, "between", element))
	w.east.apply(ctx, t, answeringPod(w.namespace, "last", "endpoint.kubernetsn.io/filtered: src"))
	w.west.pod(ctx, t, w.namespace, "between")
	w.east.pod(ctx, t, w.namespace, "last")
	w.east.apply(ctx, t, askingPod(w.namespace, "first", "filtered"))
	w.client = w.east.pod(ctx, t, w.namespace, "first")
	w.hasAnswers(ctx, t)
	links, err := hub.links(ctx, w.namespace, "filtered")
	if err != nil || len(links) != 2 {
		t.Fatalf("the hub has the links %+v, %v", links, err)
	}
	for i := range links {
		if spec := &links[i].Spec; spec.Client.Cluster == spec.Endpoint.Cluster {
			t.Errorf("link %s does not lead from cluster to cluster: %+v", links[i].Name, spec)
		}
	}
	w.east.apply(ctx, t, answeringPod(w.namespace, "nearby", element))
	w.east.pod(ctx, t, w.namespace, "nearby")
	w.restarts, w.began = kube.Restarts(w.client), time.Now()
	time.Sleep(asksBefore)
	w.died = time.Now()
	if err := w.west.client.CoreV1().Pods(w.namespace).Delete(ctx, "between", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(answered)
	w.hasAnswers(ctx, t)
	return w.judged(ctx, t, "a chain's pod in the other cluster is deleted, there is one nearby", w.east)
}

// hasAnswers waits until the client has just been answered.
func (w *watched) hasAnswers(ctx context.Context, t *testing.T) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		rows, err := w.rows(ctx, "asker")
		if err != nil {
			return err
		}
		if at, _ := asker.Last(rows); at.Before(w.died) || time.Since(at) > time.Second {
			return fmt.Errorf("the last answer came %v ago", time.Since(at))
		}
		return nil
	})
}
