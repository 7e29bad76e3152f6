// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// TestQueueNeverBlocks adds requests before the controller starts, while it does not read, and after it has ended.
func TestQueueNeverBlocks(t *testing.T) {
	const count = 20_000
	q := newQueue()
	add := func() {
		for i := range count {
			q.add(concernLinks, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: strconv.Itoa(i)}})
		}
		q.wake(concernPeers, concernSchedule)
	}
	add()
	add()
	links := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	testlab.Must(t, q.source(concernLinks).Start(t.Context(), links))
	if links.Len() != count {
		t.Errorf("%d requests wait at the start, want %d", links.Len(), count)
	}
	add()
	if links.Len() != count {
		t.Errorf("%d requests wait while nobody reads, want %d", links.Len(), count)
	}
	links.ShutDown()
	add()
}
