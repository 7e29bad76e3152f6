// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
)

// Workloads writes into the status of each TSNWorkload where its pods run, for a hub.
type Workloads struct {
	Client client.Client
	// Pods reads the pods of workloads.
	Pods client.Reader
	// pace limits how often a status is written. Only the controller's single worker uses it.
	pace *pace
}

func addWorkloads(m manager.Manager) error {
	pods, err := podCache(m, v1alpha1.WorkloadLabel, cache.Options{DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return fmt.Errorf("watch the workloads' pods: %w", err)
	}
	enqueueWorkload := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, pod *corev1.Pod) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[v1alpha1.WorkloadLabel]}}}
	})
	workloads := &Workloads{Client: m.GetClient(), Pods: pods, pace: newPace(time.Now)}
	return ctrl.NewControllerManagedBy(m).Named("workloads").
		For(&v1alpha1.TSNWorkload{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Kind(pods, &corev1.Pod{}, enqueueWorkload)).
		Watches(&v1alpha1.TSNLink{}, handler.EnqueueRequestsFromMapFunc(workloads.workloadsOfLink)).
		Complete(workloads)
}

// Reconcile reconciles the status of one workload.
func (r *Workloads) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	workload := &v1alpha1.TSNWorkload{}
	err := r.Client.Get(ctx, request.NamespacedName, workload)
	if apierrors.IsNotFound(err) {
		r.pace.forget(request.String())
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("get workload %s: %w", request, err)
	}
	status, err := r.status(ctx, workload)
	if err != nil {
		return reconcile.Result{}, err
	}
	if equality.Semantic.DeepEqual(&workload.Status, status) {
		return reconcile.Result{}, nil
	}
	if wait := r.pace.wait(request.String(), writeInterval); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	before := workload.DeepCopy()
	workload.Status = *status
	err = r.Client.Status().Patch(ctx, workload, client.MergeFrom(before), fieldOwner)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("write the status of workload %s: %w", request, err)
	}
	r.pace.done(request.String())
	return reconcile.Result{}, nil
}

// status returns where the pods of a workload run.
func (r *Workloads) status(ctx context.Context, workload *v1alpha1.TSNWorkload) (*v1alpha1.TSNWorkloadStatus, error) {
	var pods corev1.PodList
	err := r.Pods.List(ctx, &pods, client.InNamespace(workload.Namespace), client.MatchingLabels{v1alpha1.WorkloadLabel: workload.Name},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the pods of workload %s/%s: %w", workload.Namespace, workload.Name, err)
	}
	links, err := r.linksOf(ctx, pods.Items)
	if err != nil {
		return nil, err
	}
	status := &v1alpha1.TSNWorkloadStatus{Total: int32(len(pods.Items))}
	for i := range pods.Items {
		place := podstatus.Place(&pods.Items[i])
		place.Links = links[pods.Items[i].UID]
		if place.Ready {
			status.Ready++
		}
		status.Pods = append(status.Pods, place)
	}
	slices.SortFunc(status.Pods, func(a, b v1alpha1.WorkloadPod) int { return strings.Compare(a.Name, b.Name) })
	status.Pods = status.Pods[:min(len(status.Pods), v1alpha1.MaxWorkloadPods)]
	return status, nil
}

// linksOf returns the links of pods by the pods' UIDs: existing ones, and those that pods request and do not have.
func (r *Workloads) linksOf(ctx context.Context, pods []corev1.Pod) (map[types.UID][]v1alpha1.WorkloadLink, error) {
	linkedPods := map[types.UID]*corev1.Pod{}
	for i := range pods {
		if links.HasLinkLabel(pods[i].Labels) {
			linkedPods[pods[i].UID] = &pods[i]
		}
	}
	if len(linkedPods) == 0 {
		return nil, nil
	}
	var list v1alpha1.TSNLinkList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the links: %w", err)
	}
	byPod := map[types.UID][]v1alpha1.WorkloadLink{}
	for i := range list.Items {
		link := &list.Items[i]
		for _, end := range []*v1alpha1.LinkEnd{&link.Spec.Client, &link.Spec.Endpoint} {
			if pod := linkedPods[types.UID(end.UID)]; pod != nil {
				byPod[pod.UID] = append(byPod[pod.UID], workloadLink(link, pod, end == &link.Spec.Client))
			}
		}
	}
	for uid, pod := range linkedPods {
		byPod[uid] = addMissing(byPod[uid], pod)
	}
	return byPod, nil
}

// workloadLink returns the end of a link in a pod.
func workloadLink(link *v1alpha1.TSNLink, pod *corev1.Pod, isClient bool) v1alpha1.WorkloadLink {
	end, other := &link.Spec.Endpoint, &link.Spec.Client
	if isClient {
		end, other = other, end
	}
	result := v1alpha1.WorkloadLink{
		Service: link.Spec.Service, Client: isClient, Interface: end.Interface, Addresses: end.Addresses, Peer: other.Namespace + "/" + other.Pod,
		Up: meta.IsStatusConditionTrue(link.Status.Conditions, v1alpha1.ConditionUp),
	}
	// The agent of the client's node reports whether a link is up, but not into another cluster.
	if !isClient && other.Cluster != end.Cluster {
		result.Up = meta.IsStatusConditionTrue(link.Status.Conditions, v1alpha1.ConditionEndpointPlugged)
	}
	if link.Namespace != pod.Namespace {
		result.Service += "." + link.Namespace
	}
	if other.Cluster != end.Cluster {
		result.Peer = other.Cluster + "/" + result.Peer
	}
	return result
}

// addMissing adds the links that a pod requests and does not have, and sorts all by service and interface.
func addMissing(links []v1alpha1.WorkloadLink, pod *corev1.Pod) []v1alpha1.WorkloadLink {
	for key, name := range pod.Labels {
		service, ok := strings.CutPrefix(key, v1alpha1.ClientLabelPrefix)
		if ok && !slices.ContainsFunc(links, func(link v1alpha1.WorkloadLink) bool { return link.Client && link.Interface == name }) {
			links = append(links, v1alpha1.WorkloadLink{Service: strings.TrimSuffix(service, "."+pod.Namespace), Client: true, Interface: name})
		}
	}
	slices.SortFunc(links, func(a, b v1alpha1.WorkloadLink) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Interface, b.Interface))
	})
	return links[:min(len(links), v1alpha1.MaxWorkloadLinks)]
}

// workloadsOfLink returns requests for the workloads of the pods at the ends of a link.
func (r *Workloads) workloadsOfLink(ctx context.Context, object client.Object) []reconcile.Request {
	link, ok := object.(*v1alpha1.TSNLink)
	if !ok {
		return nil
	}
	var all []reconcile.Request
	for _, end := range []*v1alpha1.LinkEnd{&link.Spec.Client, &link.Spec.Endpoint} {
		var pod corev1.Pod
		if r.Pods.Get(ctx, client.ObjectKey{Namespace: end.Namespace, Name: end.Pod}, &pod) == nil && string(pod.UID) == end.UID {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[v1alpha1.WorkloadLabel]}})
		}
	}
	return all
}
