// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/limits"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// addLimits has ktsnd know the limits of the node's networks.
func (a *agent) addLimits() error {
	if !a.FromCluster {
		return nil
	}
	r := &limits.Reconciler{
		State: a.objects.State, Log: a.log.With("part", partLimits),
		Do: func(ctx context.Context, ask func(context.Context, limits.Ktsnd) error) error {
			return a.link.Do(ctx, func(ctx context.Context, client *control.Client) error { return ask(ctx, client) })
		},
		Report: func(err error) { a.board.Set(partLimits, err) },
	}
	same := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	return ctrl.NewControllerManagedBy(a.manager).Named("limits").
		// The node's objects have changed, or ktsnd was started anew and knows none.
		WatchesRawSource(source.Channel(a.limitsAgain, same)).
		Complete(r)
}
