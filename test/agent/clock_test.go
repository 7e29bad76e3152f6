// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/clocks"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/metrics"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/nodestatus"
	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/node/hostcheck"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// ktsnd is a slow ktsnd that only returns its state.
type ktsnd struct{}

func (ktsnd) Status(context.Context) (*control.Status, error) {
	time.Sleep(50 * time.Millisecond)
	return &control.Status{KtsndVersion: "1", Uplink: "direct", Interface: "eth0"}, nil
}
func (ktsnd) Schedule(context.Context) (*control.Schedule, error) {
	created := &control.Schedule{}
	created.Table.AdminGateStates = 255
	return created, nil
}
func (ktsnd) ScheduleSet(context.Context, *control.GateParameterTable) error { return nil }
func (ktsnd) TrafficClassesSet(context.Context, control.TrafficClassMap, control.PriorityCodePoints) error {
	return nil
}
func (ktsnd) ClockSet(context.Context, control.ClockQuality) error                  { return nil }
func (ktsnd) NetworkClockSet(context.Context, uint32, *control.ClockNeed) error     { return nil }
func (ktsnd) Peers(context.Context) ([]control.Peer, error)                         { return nil, nil }
func (ktsnd) NetworkClocks(context.Context) (all []control.NetworkClock, err error) { return nil, nil }

// noFigures are for nobody.
type noMetrics struct{}

func (noMetrics) Clock(*clock.Estimate, clock.State) {}

// clockAgent is the part of an agent that follows the clock, with estimates of the test.
type clockAgent struct {
	estimates chan clock.Estimate
	end       func()
	events    chan string
}

// startClockAgent runs a clockAgent with its own watch of the objects.
func startClockAgent(ctx context.Context, t *testing.T) *clockAgent {
	t.Helper()
	watching := startInformer(ctx, t, config, clockedNode)
	created := &clockAgent{estimates: make(chan clock.Estimate), events: make(chan string, 100)}
	again := make(chan struct{}, 1)
	changed := func() {
		select {
		case again <- struct{}{}:
		default:
		}
	}
	log := slog.New(slog.DiscardHandler)
	event := func(_, reason, sentence string) { created.events <- reason + ": " + sentence }
	follower := &clocks.Follower{
		State: watching.State, Changed: changed, NodeEvent: event, NetworkEvent: event, Metrics: noMetrics{}, Now: time.Now, Log: log,
		NewJudge: clocks.NewJudge,
		Updater: clocks.NewUpdater(func(ctx context.Context, ask func(context.Context, clocks.Ktsnd) error) error {
			return ask(ctx, ktsnd{})
		},
			changed, log),
		Watch: func(ctx context.Context, hear func(clock.Estimate)) error {
			for {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case estimate := <-created.estimates:
					hear(estimate)
				}
			}
		},
	}
	reports := &nodestatus.Reconciler{
		Fault:  func(uint32) error { return nil },
		MTU:    func(string, *network.Joined) int { return 1450 },
		Client: admin, Node: clockedNode, State: watching.State, Version: "1", Well: func() error { return nil }, Switch: func() error { return nil },
		Host:       func() ([]hostcheck.Finding, bool, error) { return nil, true, nil },
		CountPeers: func(map[string]metrics.PeerSummary) {},
		Relays:     func() []relay.Status { return nil }, Clock: follower, Encryption: &encryption.Judge{}, Now: time.Now, Log: log,
		Do: func(ctx context.Context, ask func(context.Context, nodestatus.Ktsnd) error) error {
			return ask(ctx, ktsnd{})
		},
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { _ = follower.Run(ctx) })
	all.Go(func() { reconcileAll(ctx, t, reports, again) })
	created.end = sync.OnceFunc(func() {
		cancel()
		all.Wait()
		watching.end()
	})
	t.Cleanup(created.end)
	return created
}

// reconcileAll calls a reconciler like its controller.
func reconcileAll(ctx context.Context, t *testing.T, reports *nodestatus.Reconciler, again <-chan struct{}) {
	for ctx.Err() == nil {
		result, err := reports.Reconcile(ctx, reconcile.Request{})
		if err != nil && ctx.Err() == nil {
			t.Error(err)
			return
		}
		select {
		case <-ctx.Done():
		case <-again:
		case <-time.After(result.RequeueAfter):
		}
	}
}

// feed sends estimates with this bound every 100 ms, with timestamps a second apart, until ctx ends. The bound and the messages vary
// slightly.
func (c *clockAgent) feed(ctx context.Context, begin time.Time, bound time.Duration) (last time.Time) {
	for i := 0; ; i++ {
		begin = begin.Add(time.Second)
		estimate := clock.Estimate{At: begin, Source: clock.PTP, Grandmaster: "001122.fffe.334455", Bound: bound + time.Duration(i%10)*bound/100}
		estimate.Parts.Offset = estimate.Bound
		select {
		case <-ctx.Done():
			return begin
		case c.estimates <- estimate:
		}
		select {
		case <-ctx.Done():
			return begin
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// clockedNode is the name of the node.
const clockedNode = "c"

// readStatus reads the TSNNode and the condition of its network's clock.
func readStatus(ctx context.Context, t *testing.T) (object *v1alpha1.TSNNode, condition string) {
	t.Helper()
	object = &v1alpha1.TSNNode{}
	testlab.Must(t, admin.Get(ctx, client.ObjectKey{Name: clockedNode}, object))
	for _, network := range object.Status.Networks {
		if synchronized := meta.FindStatusCondition(network.Conditions, v1alpha1.ConditionClockSynchronized); synchronized != nil {
			condition = fmt.Sprintf("%s %s", synchronized.Status, synchronized.Reason)
		}
	}
	return object, condition
}

// TestClockChangeIsReported alternates between a good and a bad clock, which must be reported within two seconds.
func TestClockChangeIsReported(t *testing.T) {
	ctx := needServer(t)
	about := newNetwork("clocked", 77)
	about.Spec.Clock = &v1alpha1.ClockRequirement{MaxError: "10us"}
	create(ctx, t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: clockedNode}}, about, newShard("clocked", 0, 2), newTSNNode(clockedNode, "", "clocked"))
	agent := startClockAgent(ctx, t)
	now := time.Now()
	var took []time.Duration
	for i, want := range []string{"True AsAsked", "False ClockUnsynchronized", "True AsAsked", "False ClockUnsynchronized", "True AsAsked"} {
		bound := 900 * time.Nanosecond
		if want != "True AsAsked" {
			bound = 90 * time.Microsecond
		}
		feeding, stop := context.WithCancel(ctx)
		ended := make(chan time.Time)
		began := time.Now()
		go func() { ended <- agent.feed(feeding, now, bound) }()
		testlab.Eventually(t, patience, 20*time.Millisecond, func() error {
			if object, got := readStatus(ctx, t); got != want || object.Status.Clock == nil {
				return fmt.Errorf("step %d: the network says %q, want %q", i, got, want)
			}
			return nil
		})
		if want != "True AsAsked" { // a clock is trusted only after a while
			took = append(took, time.Since(began))
		}
		stop()
		now = <-ended
	}
	slices.Sort(took)
	t.Logf("a lost clock is reported after %v", took)
	if worst := took[len(took)-1]; worst > 2*time.Second {
		t.Errorf("it took %v", worst)
	}
	t.Run("unchanged", func(t *testing.T) {
		feeding, stop := context.WithTimeout(ctx, 3*time.Second)
		defer stop()
		before, _ := readStatus(ctx, t)
		now = agent.feed(feeding, now, 900*time.Nanosecond)
		if after, _ := readStatus(ctx, t); after.ResourceVersion != before.ResourceVersion {
			t.Errorf("the TSNNode changed:\n%s", cmp.Diff(before, after))
		}
	})
	t.Run("next agent", func(t *testing.T) {
		before, _ := readStatus(ctx, t)
		agent.end()
		agent = startClockAgent(ctx, t)
		feeding, stop := context.WithTimeout(ctx, 3*time.Second)
		defer stop()
		now = agent.feed(feeding, now, 900*time.Nanosecond)
		after, _ := readStatus(ctx, t)
		if after.ResourceVersion != before.ResourceVersion || len(after.Status.Clock.History) < 5 {
			t.Errorf("the TSNNode changed, or lacks history:\n%s", cmp.Diff(before, after))
		}
		select {
		case event := <-agent.events:
			t.Errorf("it makes an Event where nothing has changed: %s", event)
		default:
		}
	})
}
