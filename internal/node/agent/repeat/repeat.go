// SPDX-License-Identifier: Apache-2.0

// Package repeat is what reconcilers have in common that look at everything, whatever they are called for, and look again when nothing
// has happened.
package repeat

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// Every is how often to look when nothing has happened.
	Every = 30 * time.Second
	// AfterFailure is when to try again what failed.
	AfterFailure = 2 * time.Second
)

// Look looks once, and tells report how it went, unless ctx ended meanwhile.
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
