// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TestLinkAgainNeverBlocks: its callers hold locks, and call it before the controller starts and after it has ended.
func TestLinkAgainNeverBlocks(t *testing.T) {
	const links = 20_000
	l := &linking{}
	enqueue := func() {
		for i := range links {
			l.enqueue(types.NamespacedName{Namespace: "default", Name: strconv.Itoa(i)})
		}
	}
	enqueue()
	enqueue()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	if err := l.due.start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	if queue.Len() != links {
		t.Errorf("%d links are due at the start, want %d", queue.Len(), links)
	}
	enqueue()
	if queue.Len() != links {
		t.Errorf("%d links are due with nobody reading, want %d", queue.Len(), links)
	}
	queue.ShutDown()
	enqueue()
}
