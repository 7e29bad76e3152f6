// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// shared is what the controllers have in common.
type shared struct {
	// live reads past the cache.
	live   client.Reader
	pods   *podIndex
	agents *agentIndex
	parts  *ledger
	keys   *keys
	links  *linkKeys
	// minimum is the least encryption of networks and links.
	minimum *tsnnetwork.EncryptionMinimum
	// announced numbers what is signed of nodes.
	announced *announcements
	// tunnels has the nodes' tunnel addresses.
	tunnels *tunnels
	// nodes asks for a TSNNode to be looked at.
	nodes *requests
	// clocks asks for a node's labels of its clock to be looked at.
	clocks *requests
}

func newShared(live client.Reader, agents *agentIndex) *shared {
	return &shared{live: live, pods: newPodIndex(), agents: agents, parts: &ledger{}, links: &linkKeys{}, announced: newAnnouncements(time.Now), tunnels: &tunnels{}, nodes: newRequests(), clocks: newRequests()}
}

// ready returns when pods, agents and parts are known.
func (s *shared) ready(ctx context.Context) error {
	for _, synced := range []chan struct{}{s.pods.synced, s.agents.synced} {
		select {
		case <-synced:
		case <-ctx.Done():
			return fmt.Errorf("wait for the pods: %w", ctx.Err())
		}
	}
	return s.parts.load(ctx, s.live)
}

// requests is the queue of a controller, for others to ask it.
type requests struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// early were made before the controller began.
	early map[string]bool
}

func newRequests() *requests { return &requests{early: map[string]bool{}} }

// start is a source of the controller.
func (r *requests) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = queue
	for name := range r.early {
		queue.Add(named(name))
	}
	r.early = nil
	return nil
}

// add asks for an object to be looked at after a while.
func (r *requests) add(name string, after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue == nil {
		r.early[name] = true
		return
	}
	r.queue.AddAfter(named(name), after)
}

func named(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

// How often a network's status and its peers are written at most, however many nodes report, join or leave. All agents of the network
// read them each time. Peers are waited for; a status is not, and the more nodes read it, the more rarely it is written.
const (
	writeEvery         = time.Second
	writeStatusEachFor = 5 * time.Millisecond
	// writeClocksEvery is for what is said of clocks, which is to be seen soon however many nodes there are.
	writeClocksEvery = 500 * time.Millisecond
)

// statusEvery is that of a network with pods on so many nodes.
func statusEvery(nodes int) time.Duration {
	return max(writeEvery, time.Duration(nodes)*writeStatusEachFor)
}

// pace bounds how often something is written for an object. One goroutine uses it.
type pace struct {
	now  func() time.Time
	last map[string]time.Time
}

func newPace(now func() time.Time) *pace {
	return &pace{now: now, last: map[string]time.Time{}}
}

// wait is for how long it is too early for something that is done so often at most.
func (p *pace) wait(name string, every time.Duration) time.Duration {
	last, known := p.last[name]
	if !known {
		return 0
	}
	return max(0, every-p.now().Sub(last))
}

// done says that it was done now.
func (p *pace) done(name string) { p.last[name] = p.now() }

// forget forgets an object that is gone.
func (p *pace) forget(name string) { delete(p.last, name) }
