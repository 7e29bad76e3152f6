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

// agentPatience is for how long what a node has reported counts without an agent that is ready. An upgrade ends the old agent before
// the node pulls the image of the new one. It begins when Kubernetes says that the agent's pod is not ready: of a node that does not
// answer this is node-monitor-grace-period later, 50 s from Kubernetes 1.32 on, 40 s before.
const agentPatience = 2 * time.Minute

// agentIndex is on which nodes an agent is ready. An agent that ends does not say so, and a node without power cannot; Kubernetes says
// it of their pods, without a request by any node. Any goroutine may use it.
type agentIndex struct {
	patience time.Duration
	now      func() time.Time
	mu       sync.Mutex
	pods     map[types.NamespacedName]agentPod
	// nodes are those with an agent's pod, or of which an agent was heard not long ago.
	nodes map[string]*agentNode
	// began is when all pods were in it. What happened before is not known, so that it is a sign of every agent's life.
	began time.Time
	// synced is closed when all pods that there were at the beginning are in it.
	synced chan struct{}
	once   sync.Once
}

// agentPod is what the index knows of an agent's pod.
type agentPod struct {
	node  string
	ready bool
}

// agentNode counts a node's pods of agents, and those that are ready.
type agentNode struct {
	pods, ready int
	// alive is when there was last a sign of an agent's life, where none is ready; zero if there was none since this operator began.
	alive time.Time
	// awaited is since when there should be an agent that reports: the node was given the label, or there is a new pod. Zero: there
	// should be none.
	awaited time.Time
}

// worth is what a node's report is worth.
type worth int

const (
	// holds : an agent is there that would say otherwise, or was a moment ago.
	holds worth = iota
	// isOld : it is of an agent that has gone, and another one is starting, which reports anew.
	isOld
	// isSilent : there should be an agent, and nobody knows what holds on the node.
	isSilent
)

func newAgentIndex(patience time.Duration, now func() time.Time) *agentIndex {
	return &agentIndex{patience: patience, now: now, pods: map[types.NamespacedName]agentPod{}, nodes: map[string]*agentNode{}, synced: make(chan struct{})}
}

// set takes in an agent's pod as it is now, and tells the node for which it makes a difference, "" if it makes none.
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
		a.at(after.node).awaited = a.now()
	}
	return after.node
}

// remove takes out a pod that is gone.
func (a *agentIndex) remove(key types.NamespacedName) (node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, known := a.pods[key]
	if !known {
		return ""
	}
	delete(a.pods, key)
	a.count(before, -1)
	a.forget()
	return before.node
}

// forget forgets nodes of which there is nothing to say. The caller has the lock.
func (a *agentIndex) forget() {
	maps.DeleteFunc(a.nodes, func(_ string, agent *agentNode) bool {
		return agent.pods == 0 && agent.awaited.IsZero() && a.left(agent.alive) == 0
	})
}

// expect says whether there shall be an agent on a node from now on. One that comes anew reports anew.
func (a *agentIndex) expect(node string, agent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	state := a.at(node)
	state.awaited, state.alive = time.Time{}, time.Time{}
	if agent {
		state.awaited = a.now()
	}
	a.forget()
}

// heard says that a node has just reported.
func (a *agentIndex) heard(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at(node).alive = a.now()
}

// at makes what there is not yet.
func (a *agentIndex) at(node string) *agentNode {
	agent := a.nodes[node]
	if agent == nil {
		agent = &agentNode{}
		a.nodes[node] = agent
	}
	return agent
}

func (a *agentIndex) count(pod agentPod, by int) {
	agent := a.at(pod.node)
	agent.pods += by
	if !pod.ready {
		return
	}
	if agent.ready += by; agent.ready == 0 {
		agent.alive = a.now()
	}
}

// left is how much is left of the patience that began then.
func (a *agentIndex) left(since time.Time) time.Duration {
	return max(0, a.patience-a.now().Sub(since))
}

// worth tells what a node's report is worth, and for how long if nothing happens, 0 for ever.
func (a *agentIndex) worth(node string) (currentWorth worth, left time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	agent := a.nodes[node]
	if agent == nil {
		agent = &agentNode{}
	}
	if agent.ready > 0 {
		return holds, 0
	}
	if left = max(a.left(a.began), a.left(agent.alive)); left > 0 {
		return holds, left
	}
	if left = a.left(agent.awaited); left > 0 || agent.awaited.IsZero() {
		return isOld, left
	}
	return isSilent, 0
}

// has tells whether there is an agent on a node, ready or not, or was one a moment ago.
func (a *agentIndex) has(node string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	agent := a.nodes[node]
	return agent != nil && (agent.pods > 0 || a.left(agent.alive) > 0)
}

// isSynced is called when all pods that there were at the beginning are in the index.
func (a *agentIndex) isSynced() {
	a.once.Do(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.began = a.now()
		close(a.synced)
	})
}

// agentSource keeps the index of agents up to date, and has the networks looked at that their nodes are on.
func (s *shared) agentSource(pods cache.Cache) *podSource {
	get := func(node string) differences {
		changes := differences{}
		if node != "" {
			s.clocks.add(node, 0)
		}
		for name := range s.parts.ofNode(node) {
			changes[name] = false
		}
		return changes
	}
	return &podSource{
		cache: pods, isSynced: s.agents.isSynced,
		set:    func(pod *corev1.Pod) differences { return get(s.agents.set(pod)) },
		remove: func(key types.NamespacedName) differences { return get(s.agents.remove(key)) },
	}
}

// expected keeps the index up to date with the label by which nodes have agents.
func (s *shared) expected() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	expect := func(object client.Object) { s.agents.expect(object.GetName(), active(object.(*corev1.Node))) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ queue) { expect(e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) { expect(e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) { s.agents.expect(e.Object.GetName(), false) },
	}
}

// heard takes a report for a sign of its agent's life.
func (s *shared) heard(_ context.Context, e event.UpdateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	s.agents.heard(e.ObjectNew.GetName())
}
