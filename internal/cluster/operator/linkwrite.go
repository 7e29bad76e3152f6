// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
)

// linkWorkers is the number of links that are written concurrently.
const linkWorkers = 8

// applyPlan deletes, creates and updates links. Failures are planned again.
func (r *Links) applyPlan(ctx context.Context, in *links.Input, plan *links.Result) error {
	var deleted []*v1alpha1.TSNLink
	for i := range plan.Delete {
		deleted = append(deleted, plan.Delete[i].Link)
	}
	if err := r.ledger.Release(ctx, deleted...); err != nil {
		return err
	}
	healed := map[string]string{}
	var mu sync.Mutex // guards the ledger and the maps while links are written concurrently
	err := forEachParallel(ctx, plan.Delete, func(removal *links.Removal) error {
		link := removal.Link
		err := r.Client.Delete(ctx, &v1alpha1.TSNLink{ObjectMeta: metav1.ObjectMeta{Namespace: link.Namespace, Name: link.Name}},
			client.Preconditions{UID: &link.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete link %s/%s: %w", link.Namespace, link.Name, err)
		}
		mu.Lock()
		defer mu.Unlock()
		r.ledger.RecordDelete(link.UID)
		healed[link.Name] = removal.Why
		return nil
	})
	if err != nil {
		return err
	}
	owners := map[links.Key]types.UID{}
	for i := range in.Services {
		owners[client.ObjectKeyFromObject(&in.Services[i])] = in.Services[i].UID
	}
	created := map[string]bool{}
	err = forEachParallel(ctx, slices.Concat(plan.Make, plan.Change), func(link *v1alpha1.TSNLink) error {
		isNew := link.UID == ""
		written, err := r.apply(ctx, link, owners[links.Key{Namespace: link.Namespace, Name: link.Spec.Service}])
		if err != nil {
			return fmt.Errorf("write link %s/%s: %w", link.Namespace, link.Name, err)
		}
		mu.Lock()
		defer mu.Unlock()
		r.ledger.RecordWrite(written)
		if isNew {
			created[link.Name] = true
			r.createLinkEvent(&link.Spec, healed[link.Name])
		}
		return nil
	})
	for i := range plan.Delete {
		if link := plan.Delete[i].Link; !created[link.Name] {
			r.Events.Event(podOf(&link.Spec.Client), corev1.EventTypeNormal, v1alpha1.ReasonUnlinked,
				fmt.Sprintf("the link to TSNService %s/%s was removed: %s", link.Namespace, link.Spec.Service, plan.Delete[i].Why))
		}
	}
	return err
}

func (r *Links) createLinkEvent(spec *v1alpha1.TSNLinkSpec, healed string) {
	text := fmt.Sprintf("interface %s is linked to pod %s/%s for TSNService %s", spec.Client.Interface, spec.Endpoint.Namespace, spec.Endpoint.Pod, spec.Service)
	reason := v1alpha1.ReasonLinked
	if healed != "" {
		reason, text = v1alpha1.ReasonHealed, text+": "+healed
	}
	r.Events.Event(podOf(&spec.Client), corev1.EventTypeNormal, reason, text)
}

func podOf(end *v1alpha1.LinkEnd) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: end.Namespace, Name: end.Pod, UID: types.UID(end.UID)}}
}

// apply creates or updates a link, and returns it as the API server has it.
func (r *Links) apply(ctx context.Context, link *v1alpha1.TSNLink, owner types.UID) (*v1alpha1.TSNLink, error) {
	object, err := applyPart(ctx, r.Client, "TSNLink", metav1.ObjectMeta{
		Namespace: link.Namespace, Name: link.Name, UID: link.UID, // so that an update does not recreate a deleted link
		Labels: map[string]string{v1alpha1.LinkMakerLabel: v1alpha1.MakerOperator, managedBy: string(fieldOwner)},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "TSNService", Name: link.Spec.Service, UID: owner, Controller: ptr.To(true),
		}},
	}, "spec", &link.Spec)
	if err != nil {
		return nil, err
	}
	written := &v1alpha1.TSNLink{}
	return written, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, written)
}

// forEachParallel calls do for each element, linkWorkers at a time, and joins the errors.
func forEachParallel[T any](ctx context.Context, all []T, do func(*T) error) error {
	results := make([]error, len(all))
	workqueue.ParallelizeUntil(ctx, linkWorkers, len(all), func(at int) { results[at] = do(&all[at]) })
	return errors.Join(append(results, ctx.Err())...)
}
