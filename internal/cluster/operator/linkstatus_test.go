// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
)

// slowWriter is an API server that answers what is written when linkWorkers are waiting for it.
type slowWriter struct {
	mu            sync.Mutex
	waiting, most int
	full          chan struct{}
	close         sync.Once
	written       map[string]types.UID
	// refused is the link that is another one by now.
	refused string
}

func (s *slowWriter) patch(_ context.Context, _ client.Client, _ string, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	s.mu.Lock()
	s.waiting++
	s.most = max(s.most, s.waiting)
	if s.waiting == linkWorkers {
		s.open()
	}
	s.mu.Unlock()
	select {
	case <-s.full:
	case <-time.After(10 * time.Second): // the test fails
		s.open()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting--
	if object.GetName() == s.refused {
		return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), errors.New("precondition failed: UID in precondition"))
	}
	s.written[object.GetName()] = object.GetUID()
	return nil
}

func (s *slowWriter) open() { s.close.Do(func() { close(s.full) }) }

func TestAdmissionsConcurrent(t *testing.T) {
	server := &slowWriter{full: make(chan struct{}), written: map[string]types.UID{}, refused: "link3"}
	shared := inCluster(t).shared
	cluster := interceptor.NewClient(shared.keys.client.(client.WithWatch), interceptor.Funcs{SubResourcePatch: server.patch})
	r := newLinks(shared, cluster, "kubernetsn", nil, nil)
	var all []links.Admission
	for i := range 5 * linkWorkers {
		name := fmt.Sprint("link", i)
		all = append(all, links.Admission{Link: &v1alpha1.TSNLink{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid of " + name), Generation: 1}}})
	}
	known := *all[0].Link
	known.Status.Conditions = []metav1.Condition{admittedCondition(&all[0])}
	all[0].Link = &known // was said before
	if err := r.updateAdmissions(t.Context(), all); !isStale(err) {
		t.Errorf("a link that is another one by now: %v", err)
	}
	if server.most != linkWorkers {
		t.Errorf("%d were written at a time, want %d", server.most, linkWorkers)
	}
	if len(server.written) != len(all)-2 || server.written["link5"] != "uid of link5" {
		t.Errorf("written are %v", server.written)
	}
}
