// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// shared is the state that the controllers share.
type shared struct {
	// live reads past the cache.
	live    client.Reader
	pods    *podIndex
	agents  *agentIndex
	subnets *subnetLedger
	keys    *keys
	links   *linkKeys
	// minimum is the minimum encryption of networks and links.
	minimum *tsnnetwork.EncryptionMinimum
	// encryptedPort is the UDP port of encrypted tunnels.
	encryptedPort int
	// announced numbers the signed statements about nodes.
	announced *announcements
	// tunnels has the nodes' tunnel addresses.
	tunnels *tunnels
	// nodes enqueues TSNNodes.
	nodes *nodeQueue
	// clocks enqueues nodes whose clock labels may change.
	clocks *nodeQueue
}

func newShared(live client.Reader, agents *agentIndex) *shared {
	return &shared{live: live, pods: newPodIndex(), agents: agents, subnets: &subnetLedger{}, links: &linkKeys{}, announced: newAnnouncements(time.Now), tunnels: &tunnels{}, nodes: newNodeQueue(), clocks: newNodeQueue()}
}

// waitReady waits until pods, agents and subnets are known.
func (s *shared) waitReady(ctx context.Context) error {
	for _, synced := range []chan struct{}{s.pods.synced, s.agents.synced} {
		select {
		case <-synced:
		case <-ctx.Done():
			return fmt.Errorf("wait for the pods: %w", ctx.Err())
		}
	}
	return s.subnets.load(ctx, s.live)
}

// nodeQueue lets other controllers enqueue nodes of a controller.
type nodeQueue struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// pending are the nodes that were enqueued before the controller started; queue is nil until then.
	pending map[string]bool
}

func newNodeQueue() *nodeQueue { return &nodeQueue{pending: map[string]bool{}} }

// start is a source.Func of the controller.
func (r *nodeQueue) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = queue
	for name := range r.pending {
		queue.Add(requestFor(name))
	}
	r.pending = nil
	return nil
}

// add enqueues a node after a delay.
func (r *nodeQueue) add(name string, after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue == nil {
		r.pending[name] = true
		return
	}
	r.queue.AddAfter(requestFor(name), after)
}

// applyPart applies one top-level field of an object, "spec" or "status". A typed object would also apply the other ones, empty. With a UID
// or a resource version it fails if the object was recreated or changed. It returns the object as the API server has it.
func applyPart(ctx context.Context, cluster client.Client, kind string, part metav1.ObjectMeta, field string, value any) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(value)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: map[string]any{field: fields}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	object.SetNamespace(part.Namespace)
	object.SetName(part.Name)
	object.SetUID(part.UID)
	object.SetResourceVersion(part.ResourceVersion)
	object.SetLabels(part.Labels)
	object.SetOwnerReferences(part.OwnerReferences)
	if field == "status" {
		return object, cluster.Status().Patch(ctx, object, client.Apply, fieldOwner, client.ForceOwnership)
	}
	return object, cluster.Patch(ctx, object, client.Apply, fieldOwner, client.ForceOwnership)
}

// patchNodeLabels sets labels of a node; a nil value removes one. A deleted node is no error.
func patchNodeLabels(ctx context.Context, cluster client.Client, name string, labels map[string]any) error {
	if len(labels) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := client.IgnoreNotFound(cluster.Patch(ctx, node, client.RawPatch(types.MergePatchType, patch))); err != nil {
		return fmt.Errorf("label node %s: %w", name, err)
	}
	return nil
}

func requestFor(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

// Minimum intervals between writes of a network's status and of its peers, however many nodes report, join or leave: all agents of the
// network read each write. Nodes wait for peers but not for the status, whose interval grows with the number of nodes.
const (
	writeInterval        = time.Second
	writeIntervalPerNode = 5 * time.Millisecond
	// clockWriteInterval is for changes of clocks, which are reported soon however many nodes there are.
	clockWriteInterval = 500 * time.Millisecond
)

// statusInterval returns the interval of a network with pods on this number of nodes.
func statusInterval(nodes int) time.Duration {
	return max(writeInterval, time.Duration(nodes)*writeIntervalPerNode)
}

// pace limits how often an object is written. It is not safe for concurrent use.
type pace struct {
	now  func() time.Time
	last map[string]time.Time
}

func newPace(now func() time.Time) *pace {
	return &pace{now: now, last: map[string]time.Time{}}
}

// wait returns how long to wait until the object may be written again.
func (p *pace) wait(name string, every time.Duration) time.Duration {
	last, known := p.last[name]
	if !known {
		return 0
	}
	return max(0, every-p.now().Sub(last))
}

// done records that the object was written now.
func (p *pace) done(name string) { p.last[name] = p.now() }

// forget forgets a deleted object.
func (p *pace) forget(name string) { delete(p.last, name) }
