// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
)

const (
	// spreadPerNode is by how much the reports of a network's nodes are spread for each node: what all nodes see at once, such as
	// another schedule, they report 500 a second.
	spreadPerNode = 2 * time.Millisecond
	// heardAfter is when the API server has told of what was written.
	heardAfter = 5 * time.Second
	// startPatience is how long the agent's parts may take to start before the node says that they are not well, patience how
	// long they may not be well later, as when the node comes to be on a network and nobody knows of it yet.
	startPatience = 10 * time.Second
	patience      = 3 * time.Second
)

// before is what the node said last: what was just written, of which the API server may not have told yet, else what that told.
func (r *Reconciler) before(state *network.Cluster) *v1alpha1.TSNNodeStatus {
	if r.said != nil && r.Now().Sub(r.saidAt) < heardAfter {
		return r.said
	}
	status := state.Node.Status.DeepCopy()
	slices.SortFunc(status.Networks, byName)
	return status
}

func byName(a, b v1alpha1.NodeNetworkStatus) int { return strings.Compare(a.Name, b.Name) }

// report writes the node's status if it is another than before. left is when to look again.
func (r *Reconciler) report(ctx context.Context, state *network.Cluster, node *corev1.Node, seen *seen) (left time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	latest := r.State() // ktsnd may have taken its time, in which the state of the clock was written
	if latest.Unknown != nil {
		latest = *state
	}
	before, now := r.before(&latest), r.Now()
	status := r.status(state, before, node, seen)
	switch {
	case equality.Semantic.DeepEqual(before, status):
		r.due = time.Time{}
		return repeatEvery, nil
	case r.passing(now):
		return patience, nil
	case r.due.IsZero():
		r.due = now.Add(spread(state))
	}
	if left = r.due.Sub(now); left > 0 {
		return left, nil
	}
	if err := r.apply(ctx, status); err != nil {
		return 0, err
	}
	r.said, r.saidAt, r.due = status, now, time.Time{}
	return repeatEvery, nil
}

// feel looks whether the node is well.
func (r *Reconciler) feel() {
	switch {
	case r.Well() == nil:
		r.unwell, r.started = time.Time{}, true
	case r.unwell.IsZero():
		r.unwell = r.Now()
	}
}

// passing tells whether it may be well again before anybody need know.
func (r *Reconciler) passing(now time.Time) bool {
	least := startPatience
	if r.started {
		least = patience
	}
	return !r.unwell.IsZero() && now.Sub(r.unwell) < least
}

// spread draws how long to wait with a report.
func spread(state *network.Cluster) time.Duration {
	return rand.N(time.Duration(mostNodes(state))*spreadPerNode + 1)
}

// mostNodes is how many nodes the largest of the node's networks has.
func mostNodes(state *network.Cluster) (most int) {
	for i := range state.Networks {
		count := 0
		for _, shard := range state.Networks[i].Shards {
			count += len(shard)
		}
		most = max(most, count)
	}
	return most
}

// apply writes the status of the node's TSNNode, which is the agent's alone.
func (r *Reconciler) apply(ctx context.Context, status *v1alpha1.TSNNodeStatus) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"status": fields}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TSNNode"))
	object.SetName(r.Node)
	err = r.Client.Status().Patch(ctx, object, client.Apply, client.FieldOwner("ktsn-agent-"+r.Node), client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("say in TSNNode %s what holds here: %w", r.Node, err)
	}
	return nil
}
