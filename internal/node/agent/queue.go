// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// concern names a controller of the agent. All controllers but links reconcile the whole node: their request is the
// zero value.
type concern string

const (
	concernPeers      concern = "peers"
	concernSchedule   concern = "schedule" // and all of the TSNNode's status but the clock
	concernClock      concern = "clock"
	concernLimits     concern = "limits"
	concernEncryption concern = "encryption"
	concernLinks      concern = "links"
	concernAttached   concern = "attached"
)

// wholeNode enqueues the request of a controller that reconciles the whole node.
var wholeNode = handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request { return []ctrl.Request{{}} })

// queue holds the requests for the controllers, by concern. A pending request is not added again. Adding never blocks:
// callers hold locks, and add requests before the controllers start and after they have stopped.
type queue struct {
	mu     sync.Mutex
	queues map[concern]workqueue.TypedRateLimitingInterface[ctrl.Request] // by started controller
	early  map[concern]map[ctrl.Request]bool                              // for controllers that have not started
}

func newQueue() *queue {
	return &queue{
		queues: map[concern]workqueue.TypedRateLimitingInterface[ctrl.Request]{}, early: map[concern]map[ctrl.Request]bool{},
	}
}

// wake makes controllers reconcile the whole node.
func (q *queue) wake(concerns ...concern) {
	for _, c := range concerns {
		q.add(c, ctrl.Request{})
	}
}

func (q *queue) add(c concern, request ctrl.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if started := q.queues[c]; started != nil {
		started.Add(request)
		return
	}
	if q.early[c] == nil {
		q.early[c] = map[ctrl.Request]bool{}
	}
	q.early[c][request] = true
}

// source returns the source of a controller. On start it moves earlier requests into the controller's workqueue.
func (q *queue) source(c concern) source.Source {
	return source.Func(func(_ context.Context, started workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.queues[c] = started
		for request := range q.early[c] {
			started.Add(request)
		}
		delete(q.early, c)
		return nil
	})
}
