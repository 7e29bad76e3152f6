// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// retryAfter is when to reconcile again if the cache was stale.
const retryAfter = 200 * time.Millisecond

// Result returns the result of a reconciliation, with the operation in its error. again is when to reconcile again, 0 for
// never. An error due to a stale cache only delays.
func Result(operation string, again time.Duration, err error) (reconcile.Result, error) {
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err):
		return reconcile.Result{RequeueAfter: retryAfter}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("%s: %w", operation, err)
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

func requestFor(namespace, name string) []reconcile.Request {
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

// Labelled requests the object that a label of another object in its namespace names.
func Labelled(label string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return requestFor(object.GetNamespace(), object.GetLabels()[label])
	})
}

// Bound requests the object of a kind that a binding of Karmada is about.
func Bound(kind string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		if spec, _, ok := binding(object); ok && spec.Resource.Kind == kind {
			return requestFor(object.GetNamespace(), spec.Resource.Name)
		}
		return nil
	})
}

// Every requests all objects of a kind.
func Every(c client.Reader, kind client.ObjectList, log *slog.Logger) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) (all []reconcile.Request) {
		list := kind.DeepCopyObject().(client.ObjectList)
		err := c.List(ctx, list)
		if err == nil {
			err = meta.EachListItem(list, func(item runtime.Object) error {
				object, err := meta.Accessor(item)
				if err == nil {
					all = append(all, requestFor(object.GetNamespace(), object.GetName())...)
				}
				return err
			})
		}
		if err != nil {
			log.Error("objects cannot be listed", "kind", fmt.Sprintf("%T", list), "error", err)
		}
		return all
	})
}
