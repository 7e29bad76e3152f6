// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/clocks"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/limits"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/nodestatus"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/openvswitch"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Delays before a failed status update is retried.
const minRetryDelay, maxRetryDelay = time.Second, 30 * time.Second

// addNodeStatus adds the controllers that set the schedule in ktsnd and write the status of the TSNNode. ovs may be nil.
func addNodeStatus(c *core, state func() network.Cluster, judge *encryption.Judge, clock *clocks.Follower, relays *relay.Supervisor,
	paths pathMTUs, ovs *openvswitch.Reconciler, host *hostFindings) error {
	r := &nodestatus.Reconciler{
		Client: c.manager.GetClient(), Node: c.Node, State: state, Version: c.Version,
		Well:   func() error { return readyForPods(c.board) },
		Fault:  c.faults.of,
		Switch: ovs.LastErr, Relays: relays.Status, MTU: paths.networkMTU, Encryption: judge, Clock: clock, CountPeers: c.metrics.Peers,
		Host: host.get,
		Do:   ask(c, func(k *control.Client) nodestatus.Ktsnd { return k }),
		Now:  time.Now, Log: c.log.With("part", "schedule"),
	}
	options := func() controller.Options {
		return controller.Options{RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minRetryDelay, maxRetryDelay)}
	}
	// The clock has a controller of its own, because a ktsnd that hangs blocks that of the schedule.
	err := ctrl.NewControllerManagedBy(c.manager).Named("clock").
		WatchesRawSource(c.queue.source(concernClock)).
		WithOptions(options()).
		Complete(reconcile.Func(r.ReconcileClock))
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(c.manager).Named("schedule").
		Watches(&corev1.Node{}, wholeNode, builder.WithPredicates(nodeChanged)).
		// The node's objects or the state of its parts have changed, or ktsnd has started and has no schedule.
		WatchesRawSource(c.queue.source(concernSchedule)).
		WithOptions(options()).
		Complete(r)
}

// readyForPods returns the errors that keep the node from serving pods.
func readyForPods(board *board) error {
	var errs error
	for _, part := range []string{partKtsnd, partKubelet, partNetworks, partLimits} {
		if err := board.get(part); err != nil {
			errs = errors.Join(errs, fmt.Errorf("%s: %w", part, err))
		}
	}
	return errs
}

// addLimits adds the controller that sets the limits of the node's networks in ktsnd.
func addLimits(c *core, state func() network.Cluster) error {
	r := &limits.Reconciler{
		State: state, Log: c.log.With("part", partLimits),
		Do:     ask(c, func(k *control.Client) limits.Ktsnd { return k }),
		Report: func(err error) { c.board.set(partLimits, err) },
	}
	return ctrl.NewControllerManagedBy(c.manager).Named("limits").
		// The node's objects have changed, or ktsnd has started and has no limits.
		WatchesRawSource(c.queue.source(concernLimits)).
		Complete(r)
}
