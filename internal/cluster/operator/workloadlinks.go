// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// linksOf are the links of some pods, by the pods' UIDs: those that there are, and those that pods ask for.
func (r *Workloads) linksOf(ctx context.Context, pods []corev1.Pod) (map[types.UID][]v1alpha1.WorkloadLink, error) {
	asked := map[types.UID]*corev1.Pod{}
	for i := range pods {
		if asksForLinks(&pods[i]) {
			asked[pods[i].UID] = &pods[i]
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	var list v1alpha1.TSNLinkList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the links: %w", err)
	}
	links := map[types.UID][]v1alpha1.WorkloadLink{}
	for i := range list.Items {
		link := &list.Items[i]
		for _, end := range []*v1alpha1.LinkEnd{&link.Spec.Client, &link.Spec.Endpoint} {
			if pod := asked[types.UID(end.UID)]; pod != nil {
				links[pod.UID] = append(links[pod.UID], endIn(link, pod, end == &link.Spec.Client))
			}
		}
	}
	for uid, pod := range asked {
		links[uid] = withMissing(links[uid], pod)
	}
	return links, nil
}

func asksForLinks(pod *corev1.Pod) bool {
	for key := range pod.Labels {
		if strings.HasPrefix(key, v1alpha1.ClientLabelPrefix) || strings.HasPrefix(key, v1alpha1.EndpointLabelPrefix) {
			return true
		}
	}
	return false
}

// endIn is the end of a link in a pod.
func endIn(link *v1alpha1.TSNLink, pod *corev1.Pod, isClient bool) v1alpha1.WorkloadLink {
	end, other := &link.Spec.Endpoint, &link.Spec.Client
	if isClient {
		end, other = other, end
	}
	currentLink := v1alpha1.WorkloadLink{
		Service: link.Spec.Service, Client: isClient, Interface: end.Interface, Addresses: end.Addresses, Peer: other.Namespace + "/" + other.Pod,
		Up: meta.IsStatusConditionTrue(link.Status.Conditions, v1alpha1.ConditionUp),
	}
	// The agent of the client's node says whether a link is up. Of a client in another cluster this one does not hear it.
	if !isClient && other.Cluster != end.Cluster {
		currentLink.Up = meta.IsStatusConditionTrue(link.Status.Conditions, v1alpha1.ConditionEndpointPlugged)
	}
	if link.Namespace != pod.Namespace {
		currentLink.Service += "." + link.Namespace
	}
	if other.Cluster != end.Cluster {
		currentLink.Peer = other.Cluster + "/" + currentLink.Peer
	}
	return currentLink
}

// withMissing adds the links for which a pod asks in vain, and has them in the order of services and interfaces.
func withMissing(links []v1alpha1.WorkloadLink, pod *corev1.Pod) []v1alpha1.WorkloadLink {
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

// linked are the workloads to whose pods a link leads.
func (r *Workloads) linked(ctx context.Context, object client.Object) []reconcile.Request {
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
