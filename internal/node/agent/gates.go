// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/gates"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// addGates has ktsnd execute the schedule of the cluster's networks, and reports in their status.
func (a *agent) addGates() error {
	if !a.FromCluster {
		return nil
	}
	r := &gates.Reconciler{
		Client: a.manager.GetClient(), Node: a.Node, Well: a.wellForNetworks, Switch: a.switchTrouble, Now: time.Now, Log: a.log.With("part", "schedule"),
		Do: func(ctx context.Context, ask func(context.Context, gates.Ktsnd) error) error {
			return a.link.Do(ctx, func(ctx context.Context, client *control.Client) error { return ask(ctx, client) })
		},
	}
	same := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	return ctrl.NewControllerManagedBy(a.manager).Named("schedule").
		Watches(&v1alpha1.TSNNetwork{}, same).
		Watches(&corev1.Node{}, same, builder.WithPredicates(relevant)).
		// A ktsnd that was started anew has no schedule.
		WatchesRawSource(source.Channel(a.gatesAgain, same)).
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
