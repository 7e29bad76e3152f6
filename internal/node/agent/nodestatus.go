// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/nodestatus"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

const (
	// firstRetry and lastRetry are when to report again that the API server did not take.
	firstRetry, lastRetry = time.Second, 30 * time.Second
)

// addGates has ktsnd execute the schedule that the node shall have, and reports what holds on the node.
func (a *agent) addGates() error {
	if !a.FromCluster {
		return nil
	}
	r := &nodestatus.Reconciler{
		Client: a.manager.GetClient(), Node: a.Node, State: a.objects.State, Version: a.Version, Well: a.wellForNetworks, Switch: a.switchTrouble, Relays: a.relays.Status, MTU: a.mtu, Encryption: a.judge, Clock: a.clock, Now: time.Now, Log: a.log.With("part", "schedule"),
		Do: func(ctx context.Context, ask func(context.Context, nodestatus.Ktsnd) error) error {
			return a.link.Do(ctx, func(ctx context.Context, client *control.Client) error { return ask(ctx, client) })
		},
	}
	same := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	options := func() controller.Options {
		return controller.Options{RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)}
	}
	// Of its own, because a ktsnd that hangs has that of the schedule wait.
	err := ctrl.NewControllerManagedBy(a.manager).Named("clock").WatchesRawSource(source.Channel(a.clockAgain, same)).
		WithOptions(options()).Complete(reconcile.Func(r.ReconcileClock))
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(a.manager).Named("schedule").
		Watches(&corev1.Node{}, same, builder.WithPredicates(relevant)).
		// The node's objects have changed, or how its parts are, or ktsnd was started anew and has no schedule.
		WatchesRawSource(source.Channel(a.gatesAgain, same)).
		WithOptions(options()).
		Complete(r)
}

// wellForNetworks names what keeps the node from serving pods.
func (a *agent) wellForNetworks() error {
	var all error
	for _, part := range []string{partKtsnd, partKubelet, partNetworks, partLimits} {
		if err := a.board.Get(part); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", part, err))
		}
	}
	return all
}
