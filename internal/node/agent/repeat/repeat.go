// SPDX-License-Identifier: Apache-2.0

// Package repeat has what reconcilers share that ignore the request, reconcile everything, and repeat that
// periodically.
package repeat

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// Every is the time between two reconciliations without a trigger.
	Every = 30 * time.Second
	// AfterFailure is the time until a failed reconciliation is retried.
	AfterFailure = 2 * time.Second
)

// Look calls all and passes its result to report, unless ctx has ended.
func Look(ctx context.Context, all func(context.Context) error, report func(error)) (reconcile.Result, error) {
	err := all(ctx)
	if ctx.Err() != nil {
		return reconcile.Result{}, nil
	}
	report(err)
	if err != nil {
		return reconcile.Result{RequeueAfter: AfterFailure}, nil
	}
	return reconcile.Result{RequeueAfter: Every}, nil
}
