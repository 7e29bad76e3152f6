// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
	err := forEachParallel(plan.Delete, func(removal *links.Removal) error {
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
		owners[links.Key{Namespace: in.Services[i].Namespace, Name: in.Services[i].Name}] = in.Services[i].UID
	}
	created := map[string]bool{}
	err = forEachParallel(slices.Concat(plan.Make, plan.Change), func(link *v1alpha1.TSNLink) error {
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
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&link.Spec)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TSNLink"))
	object.SetNamespace(link.Namespace)
	object.SetName(link.Name)
	object.SetUID(link.UID) // so that an update does not recreate a deleted link
	object.SetLabels(map[string]string{v1alpha1.LinkMakerLabel: v1alpha1.MakerOperator, managedBy: string(fieldOwner)})
	yes := true
	object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TSNService", Name: link.Spec.Service, UID: owner,
		Controller: &yes}})
	if err := r.Client.Patch(ctx, object, client.Apply, fieldOwner, client.ForceOwnership); err != nil {
		return nil, err
	}
	written := &v1alpha1.TSNLink{}
	return written, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, written)
}

// forEachParallel calls do for each element, linkWorkers at a time, and joins the errors.
func forEachParallel[T any](all []T, do func(*T) error) error {
	results := make([]error, len(all))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(linkWorkers, len(all)) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for at := range next {
				results[at] = do(&all[at])
			}
		}()
	}
	for at := range all {
		next <- at
	}
	close(next)
	workers.Wait()
	return errors.Join(results...)
}

// forgetDeleted forgets the Events of deleted objects.
func (r *Links) forgetDeleted(existing map[string]bool) {
	maps.DeleteFunc(r.reported, func(uid string, _ map[string]bool) bool { return !existing[uid] })
}
