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
	// spreadPerNode spreads the reports of a network's nodes: a change that all nodes see at once, such as another schedule, causes 500
	// reports a second.
	spreadPerNode = 2 * time.Millisecond
	// writeVisible is how long the watch may take to deliver a written status.
	writeVisible = 5 * time.Second
	// startPatience is how long the agent's parts may take to start before a report says that they are not ready. patience is the same for
	// later problems, such as those of a network that the node has just joined.
	startPatience = 10 * time.Second
	patience      = 3 * time.Second
)

// lastStatus returns the status that was just written, which the watch may not have delivered yet, else the delivered one.
func (r *Reconciler) lastStatus(state *network.Cluster) *v1alpha1.TSNNodeStatus {
	if r.written != nil && r.Now().Sub(r.writtenAt) < writeVisible {
		return r.written
	}
	status := state.Node.Status.DeepCopy()
	slices.SortFunc(status.Networks, byName)
	return status
}

func byName(a, b v1alpha1.NodeNetworkStatus) int { return strings.Compare(a.Name, b.Name) }

// report writes the node's status if it has changed and is due. left is when to call it again.
func (r *Reconciler) report(ctx context.Context, state *network.Cluster, node *corev1.Node, ktsnd *ktsndState) (left time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	latest := r.State() // ReconcileClock may have written while ktsnd was asked
	if latest.Unknown != nil {
		latest = *state
	}
	before, now := r.lastStatus(&latest), r.Now()
	status := r.status(state, before, node, ktsnd)
	switch {
	case equality.Semantic.DeepEqual(before, status):
		r.writeDue = time.Time{}
		return repeatEvery, nil
	case r.transient(now):
		return patience, nil
	case r.writeDue.IsZero():
		r.writeDue = now.Add(spread(state))
	}
	if left = r.writeDue.Sub(now); left > 0 {
		return left, nil
	}
	if err := r.apply(ctx, status); err != nil {
		return 0, err
	}
	r.written, r.writtenAt, r.writeDue = status, now, time.Time{}
	return repeatEvery, nil
}

// updateReadiness notes since when the node's parts are not ready.
func (r *Reconciler) updateReadiness() {
	switch {
	case r.Well() == nil:
		r.notReadySince, r.started = time.Time{}, true
	case r.notReadySince.IsZero():
		r.notReadySince = r.Now()
	}
}

// transient reports whether the present problem may clear before it must be reported.
func (r *Reconciler) transient(now time.Time) bool {
	least := startPatience
	if r.started {
		least = patience
	}
	return !r.notReadySince.IsZero() && now.Sub(r.notReadySince) < least
}

// spread returns a random delay of a report.
func spread(state *network.Cluster) time.Duration {
	return rand.N(time.Duration(mostNodes(state))*spreadPerNode + 1)
}

// mostNodes returns the number of nodes of the largest of the node's networks.
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

// apply writes the status of the node's TSNNode, which only the agent writes.
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
		return fmt.Errorf("write the status of TSNNode %s: %w", r.Node, err)
	}
	return nil
}
