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

// newClock adds the follower of the node's clock. state is nil if the networks come from a file. On a platform without
// a clock the follower does not run and reports nothing.
func newClock(c *core, state func() network.Cluster) (*clocks.Follower, error) {
	log := c.log.With("part", "clock")
	changed := func() { c.queue.wake(concernClock, concernSchedule) }
	follower := &clocks.Follower{
		Watch:    func(ctx context.Context, hear func(clock.Estimate)) error { return c.platform.Clock(ctx, hear, log) },
		NewJudge: clocks.NewJudge,
		Updater:  clocks.NewUpdater(ask(c, func(k *control.Client) clocks.Ktsnd { return k }), changed, log),
		State:    state,
		Changed:  changed, Metrics: c.metrics, Now: time.Now, Log: log,
	}
	events := c.manager.GetEventRecorderFor("ktsn-agent")
	// kubelet refers to its Node in the same way, so the object need not be fetched.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.Node, UID: types.UID(c.Node)}}
	follower.NodeEvent = func(eventType, reason, message string) { events.Event(node, eventType, reason, message) }
	// The recorder limits Events per source and object: faults and steps must not displace the others.
	faults := c.manager.GetEventRecorderFor("ktsn-agent-clock")
	follower.FaultEvent = func(eventType, reason, message string) { faults.Event(node, eventType, reason, message) }
	follower.NetworkEvent = func(eventType, reason, message string) {
		if object := state().Node; object != nil {
			events.Event(object, eventType, reason, message)
		}
	}
	if c.platform.Clock == nil {
		return follower, nil
	}
	return follower, c.manager.Add(manager.RunnableFunc(follower.Run))
}

// watchClock follows the clock of this machine. It finds the programs that set the clock if the agent can see the
// node's processes. chronyd answers on the loopback address, which the agent shares with the node.
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
