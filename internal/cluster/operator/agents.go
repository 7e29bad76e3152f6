// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
)

// agentTimeout is how long a node's report stays valid without a ready agent. An upgrade ends the old agent before the node pulls the
// new image. The time starts when Kubernetes marks the agent's pod as not ready; for an unreachable node this is
// node-monitor-grace-period later: 50 s from Kubernetes 1.32 on, 40 s before.
const agentTimeout = 2 * time.Minute

// agentIndex knows on which nodes an agent is ready. It reads the readiness of the agents' pods: an agent that ends, or a node without
// power, cannot report itself. It is safe for concurrent use.
type agentIndex struct {
	timeout time.Duration
	now     func() time.Time
	mu      sync.Mutex
	pods    map[types.NamespacedName]agentPod
	// nodes has the nodes with an agent's pod or a recent report.
	nodes map[string]*agentNode
	// syncedAt is when the index was complete. Earlier events are unknown, so all agents count as seen then.
	syncedAt time.Time
	// synced is closed when the index has all pods of the initial list.
	synced chan struct{}
	once   sync.Once
}

// agentPod is the state of an agent's pod.
type agentPod struct {
	node  string
	ready bool
}

// agentNode counts the agents' pods on a node, and the ready ones among them.
type agentNode struct {
	pods, ready int
	// lastSeen is when an agent was last ready or reported; zero if never since this operator started.
	lastSeen time.Time
	// expectedSince is when the node got the label or a new pod of an agent; zero if no agent is expected.
	expectedSince time.Time
}

// reportValidity is how far a node's report can be trusted.
type reportValidity int

const (
	// reportCurrent : an agent is ready that would report a change, or was until recently.
	reportCurrent reportValidity = iota
	// reportStale : the reporting agent is gone; a new one is starting and will report again.
	reportStale
	// agentMissing : an agent is expected and none is ready; the state of the node is unknown.
	agentMissing
)

func newAgentIndex(timeout time.Duration, now func() time.Time) *agentIndex {
	return &agentIndex{timeout: timeout, now: now, pods: map[types.NamespacedName]agentPod{}, nodes: map[string]*agentNode{}, synced: make(chan struct{})}
}

// set adds or updates an agent's pod. It returns the node whose state has changed, "" for none.
func (a *agentIndex) set(pod *corev1.Pod) (node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if pod.Spec.NodeName == "" {
		return ""
	}
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	before, known := a.pods[key]
	after := agentPod{pod.Spec.NodeName, podstatus.Ready(pod)}
	if known && before == after {
		return ""
	}
	a.pods[key] = after
	a.count(after, 1)
	if known {
		a.count(before, -1)
	}
	if !known || before.node != after.node {
		a.ensureNode(after.node).expectedSince = a.now()
	}
	return after.node
}

// remove removes a deleted pod and returns its node, "" if the pod was unknown.
func (a *agentIndex) remove(key types.NamespacedName) (node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, known := a.pods[key]
	if !known {
		return ""
	}
	delete(a.pods, key)
	a.count(before, -1)
	a.forgetIdle()
	return before.node
}

// forgetIdle forgets nodes without an agent. The caller holds the lock.
func (a *agentIndex) forgetIdle() {
	maps.DeleteFunc(a.nodes, func(_ string, agent *agentNode) bool {
		return agent.pods == 0 && agent.expectedSince.IsZero() && a.remaining(agent.lastSeen) == 0
	})
}

// expect sets whether an agent should run on a node from now on.
func (a *agentIndex) expect(node string, agent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	state := a.ensureNode(node)
	state.expectedSince, state.lastSeen = time.Time{}, time.Time{}
	if agent {
		state.expectedSince = a.now()
	}
	a.forgetIdle()
}

// recordReport records that a node has just reported.
func (a *agentIndex) recordReport(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ensureNode(node).lastSeen = a.now()
}

// ensureNode returns the entry of a node and creates it if necessary. The caller holds the lock.
func (a *agentIndex) ensureNode(node string) *agentNode {
	agent := a.nodes[node]
	if agent == nil {
		agent = &agentNode{}
		a.nodes[node] = agent
	}
	return agent
}

func (a *agentIndex) count(pod agentPod, by int) {
	agent := a.ensureNode(pod.node)
	agent.pods += by
	if !pod.ready {
		return
	}
	if agent.ready += by; agent.ready == 0 {
		agent.lastSeen = a.now()
	}
}

// remaining returns the rest of the timeout that started at since.
func (a *agentIndex) remaining(since time.Time) time.Duration {
	return max(0, a.timeout-a.now().Sub(since))
}

// validity returns the validity of a node's report, and how long it stays so without further events; 0 means indefinitely.
func (a *agentIndex) validity(node string) (state reportValidity, remaining time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	agent := a.nodes[node]
	if agent == nil {
		agent = &agentNode{}
	}
	if agent.ready > 0 {
		return reportCurrent, 0
	}
	if remaining = max(a.remaining(a.syncedAt), a.remaining(agent.lastSeen)); remaining > 0 {
		return reportCurrent, remaining
	}
	if remaining = a.remaining(agent.expectedSince); remaining > 0 || agent.expectedSince.IsZero() {
		return reportStale, remaining
	}
	return agentMissing, 0
}

// has reports whether a node has an agent, ready or not, or had one until recently.
func (a *agentIndex) has(node string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	agent := a.nodes[node]
	return agent != nil && (agent.pods > 0 || a.remaining(agent.lastSeen) > 0)
}

// markSynced is called when the index has all pods of the initial list.
func (a *agentIndex) markSynced() {
	a.once.Do(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.syncedAt = a.now()
		close(a.synced)
	})
}

// agentSource updates the index of agents and enqueues the networks of their nodes.
func (s *shared) agentSource(pods cache.Cache) *podSource {
	toDifferences := func(node string) differences {
		changes := differences{}
		if node != "" {
			s.clocks.add(node, 0)
		}
		for name := range s.subnets.forNode(node) {
			changes[name] = false
		}
		return changes
	}
	return &podSource{
		cache: pods, markSynced: s.agents.markSynced,
		set:    func(pod *corev1.Pod) differences { return toDifferences(s.agents.set(pod)) },
		remove: func(key types.NamespacedName) differences { return toDifferences(s.agents.remove(key)) },
	}
}

// agentLabelHandler updates the index from the label by which nodes have agents.
func (s *shared) agentLabelHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	expect := func(object client.Object) { s.agents.expect(object.GetName(), active(object.(*corev1.Node))) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ queue) { expect(e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) { expect(e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) { s.agents.expect(e.Object.GetName(), false) },
	}
}

// observeReport records that a node's agent is alive, because it has reported.
func (s *shared) observeReport(_ context.Context, e event.UpdateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	s.agents.recordReport(e.ObjectNew.GetName())
}
