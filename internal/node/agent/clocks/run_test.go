// SPDX-License-Identifier: Apache-2.0

package clocks

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/metrics"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// TestFollowerRun runs everything: a watch that fails and is restarted, a ktsnd that does not answer, and
// concurrent readers.
func TestFollowerRun(t *testing.T) {
	figures, err := metrics.New(prometheus.NewRegistry())
	testlab.Must(t, err)
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	var watches atomic.Int32
	asked := make(chan struct{})
	var once sync.Once
	log := slog.New(slog.DiscardHandler)
	about := newNetwork("tsn", 42, "10us")
	state := network.Cluster{Node: &v1alpha1.TSNNode{}, Networks: []network.Joined{{Part: v1alpha1.NodeNetwork{Name: "tsn"}, Object: about}}}
	f := &Follower{
		NewJudge: func(Judge) Judge { return fakeJudge{} }, State: func() network.Cluster { return state },
		Changed: notify, Metrics: figures, Now: time.Now, Log: log,
		NodeEvent: func(string, string, string) {}, FaultEvent: func(string, string, string) {}, NetworkEvent: func(string, string, string) {},
		Updater: NewUpdater(func(ctx context.Context, _ func(context.Context, Ktsnd) error) error {
			once.Do(func() { close(asked) })
			<-ctx.Done() // it never answers
			return ctx.Err()
		}, notify, log),
		Watch: func(_ context.Context, hear func(clock.Estimate)) error {
			bound := time.Duration(900)
			if watches.Add(1) > 1 {
				bound = 1e6
			}
			hear(clock.Estimate{At: time.Now(), Bound: bound, Source: clock.PTP})
			return errors.New("the kernel has no clock")
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- f.Run(ctx) }()
	for _, want := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse} {
		for {
			if condition, known := f.Network("tsn"); known && condition.Status == want && f.Node() != nil {
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
				t.Fatalf("after %d watches it does not say %s", watches.Load(), want)
			}
		}
	}
	<-asked
	f.Trigger()
	f.Updater.Reset()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

var _ Ktsnd = (*control.Client)(nil)
