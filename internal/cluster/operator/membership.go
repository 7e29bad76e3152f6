// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// The webhook and the policy kubernetsn-pods refuse pods that may not be on a network. The operator checks again before it counts a pod:
// admission may have been absent when the pod was created, and a selector or a label may have changed since.

// isMirror reports whether a pod is the API server's copy of a static pod. The webhook cannot change it, so it is on no network.
func isMirror(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

// networksAsked returns a pod's annotation with the names of its networks, "" for a pod that cannot be on any.
func networksAsked(pod *corev1.Pod) string {
	if isMirror(pod) {
		return ""
	}
	return pod.Annotations[v1alpha1.NetworkAnnotation]
}

// namespaceSet has the namespaces whose pods may be on a network; nil selects all of them.
type namespaceSet map[string]bool

func (s namespaceSet) has(namespace string) bool { return s == nil || s[namespace] }

// selectedNamespaces evaluates spec.namespaceSelector of a network. A selector that cannot be parsed selects all namespaces: the pods that are there
// continue to count, and the webhook refuses further ones.
func selectedNamespaces(ctx context.Context, reader client.Reader, network *v1alpha1.TSNNetwork) (namespaceSet, error) {
	if network.Spec.NamespaceSelector == nil {
		return nil, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(network.Spec.NamespaceSelector)
	if err != nil {
		return nil, nil
	}
	items, err := listNamespaces(ctx, reader, selector)
	if err != nil {
		return nil, err
	}
	names := namespaceSet{}
	for i := range items { // also those that are being deleted: their pods run until they are gone
		names[items[i].Name] = true
	}
	return names, nil
}

func listNamespaces(ctx context.Context, reader client.Reader, selector labels.Selector) ([]corev1.Namespace, error) {
	var namespaces corev1.NamespaceList
	if err := reader.List(ctx, &namespaces, client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the namespaces: %w", err)
	}
	return namespaces.Items, nil
}

// reportExcluded reports pods that name the network and are in a namespace that it does not select, each pod once. The cache may not have a new
// namespace yet; its pods are not reported until it has.
func (r *Networks) reportExcluded(ctx context.Context, o *outcome) error {
	network, used := o.network, o.used
	for namespace := range used.excluded {
		err := r.Client.Get(ctx, types.NamespacedName{Name: namespace}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			delete(used.excluded, namespace)
		} else if err != nil {
			return fmt.Errorf("get namespace %s: %w", namespace, err)
		}
	}
	if len(used.excluded) == 0 {
		return nil
	}
	why := fmt.Sprintf("spec.namespaceSelector of TSNNetwork %s (%s) does not select", network.Name, metav1.FormatLabelSelector(network.Spec.NamespaceSelector))
	for _, pod := range r.shared.pods.excluded(network.Name, used.excluded) {
		if r.shared.pods.markReported(pod, "namespace of "+network.Name) {
			r.Events.Eventf(pod, corev1.EventTypeWarning, v1alpha1.ReasonNamespaceNotSelected,
				"%s namespace %s, so the pod does not count as one of the network; delete the pod, or select its namespace", why, pod.Namespace)
		}
	}
	names := slices.Sorted(maps.Keys(used.excluded))
	o.add(finding{reason: v1alpha1.ReasonNamespaceNotSelected, text: fmt.Sprintf(
		"%s these namespaces, and their pods that name the network do not count: %s", why, strings.Join(abbreviate(names), ", "))})
	return nil
}
