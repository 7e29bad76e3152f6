// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/clocks"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// addClock follows the node's clock. Without a watch of it nobody says anything of it.
func (a *agent) addClock() error {
	log := a.log.With("part", "clock")
	changed := func() { again(a.clockAgain, a.gatesAgain) }
	a.clock = &clocks.Follower{
		Watch:    func(ctx context.Context, hear func(clock.Estimate)) error { return a.platform.Clock(ctx, hear, log) },
		NewJudge: clocks.NewJudge,
		Teller: clocks.NewTeller(func(ctx context.Context, ask func(context.Context, clocks.Ktsnd) error) error {
			return a.link.Do(ctx, func(ctx context.Context, client *control.Client) error { return ask(ctx, client) })
		}, changed, log),
		Changed: changed, Metrics: a.metrics, Now: time.Now, Log: log,
	}
	if a.FromCluster {
		a.clock.State = func() network.Cluster { return a.objects.State() }
	}
	events := a.manager.GetEventRecorderFor("ktsn-agent")
	// As kubelet names it, so that nobody need ask the API server for it.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.Node, UID: types.UID(a.Node)}}
	a.clock.NodeEvent = func(eventType, reason, sentence string) { events.Event(node, eventType, reason, sentence) }
	// One that makes many Events of an object has the rest left out: faults and steps are another one's.
	faults := a.manager.GetEventRecorderFor("ktsn-agent-clock")
	a.clock.FaultEvent = func(eventType, reason, sentence string) { faults.Event(node, eventType, reason, sentence) }
	a.clock.NetworkEvent = func(eventType, reason, sentence string) {
		if own := a.objects.State().Node; own != nil {
			events.Event(own, eventType, reason, sentence)
		}
	}
	if a.platform.Clock == nil {
		return nil
	}
	return a.manager.Add(manager.RunnableFunc(a.clock.Run))
}

// watchClock follows the clock of this machine. Programs that set it are looked for where the agent sees the node's processes. chronyd
// answers on the node's loopback, which is the agent's as well.
func (o *Options) watchClock(ctx context.Context, hear func(clock.Estimate), log *slog.Logger) error {
	proc := o.Proc
	if proc == "" {
		proc = "-"
	}
	watcher, err := clock.Watch(ctx, clock.Options{Proc: proc, Log: log})
	if err != nil {
		return fmt.Errorf("watch the node's clock: %w", err)
	}
	defer watcher.Close()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case estimate := <-watcher.Changes():
			hear(estimate)
		}
	}
}
