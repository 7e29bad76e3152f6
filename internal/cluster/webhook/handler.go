// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Path is where the API server asks.
const Path = "/mutate-pod"

// Handler answers the API server.
type Handler struct {
	// Cached answers at once, and may not know yet what Live does.
	Cached, Live client.Reader
	// Kata has the handlers of RuntimeClasses that are Kata's; empty: nobody looks at RuntimeClasses.
	Kata Kata
	// Links is what pods with links are given.
	Links Links
}

// mirrorRefused is why a static pod gets neither a network nor links. The policy kubernetsn-pods gives the same message.
const mirrorRefused = "the pod has the annotation " + corev1.MirrorPodAnnotationKey + ": kubelet starts it from a file of its node, and nothing can be added to it, " +
	"so that it can be on no network and have no links; remove the annotation " + v1alpha1.NetworkAnnotation + " and the labels " +
	v1alpha1.ClientLabelPrefix + " and " + v1alpha1.EndpointLabelPrefix + " from the file, or make the pod at the API server"

// refusal is for the pod's owner; other errors are the cluster's.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// Handle answers one request.
func (h *Handler) Handle(ctx context.Context, request admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(request.Object.Raw, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the pod: %w", err))
	}
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return admission.Denied(mirrorRefused)
	}
	before := pod.DeepCopy()
	warnings, err := h.change(ctx, pod, request.Namespace)
	var refused refusal
	if errors.As(err, &refused) {
		return admission.Denied(err.Error())
	}
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.Patched("", patchOf(before, pod)...).WithWarnings(warnings...)
}

// change gives a pod what its annotation and its labels ask for. The API server does not ask about pods that have neither.
func (h *Handler) change(ctx context.Context, pod *corev1.Pod, namespace string) (warnings []string, err error) {
	if value, named := pod.Annotations[v1alpha1.NetworkAnnotation]; named {
		warning, err := h.put(ctx, pod, namespace, value)
		if err != nil {
			return nil, err
		}
		if warning != "" {
			warnings = append(warnings, warning)
		}
	}
	if !links.HasLinkLabel(pod.Labels) {
		return warnings, nil
	}
	more, err := h.link(ctx, pod, namespace)
	return append(warnings, more...), err
}

// put puts a pod on the networks that its annotation names. The warning is for who makes it.
func (h *Handler) put(ctx context.Context, pod *corev1.Pod, namespace, value string) (warning string, err error) {
	networks, err := tsnnetwork.NetworksOf(value)
	if err != nil {
		return "", refusal{err}
	}
	var clocked []string // those that ask something of clocks
	for _, name := range networks {
		network, err := h.network(ctx, name)
		if err != nil {
			return "", err
		}
		if err := h.mayJoin(ctx, namespace, network); err != nil {
			return "", err
		}
		if err := mayHaveCard(pod, namespace, network); err != nil {
			return "", err
		}
		if network.Spec.Clock != nil {
			clocked = append(clocked, name)
		}
	}
	kata, warning, err := h.kataOf(ctx, pod)
	if err != nil {
		return "", err
	}
	if err := mutate(pod, namespace, networks, kata); err != nil {
		return "", refusal{err}
	}
	avoidLost(pod, clocked)
	return warning, nil
}

// mayHaveCard returns why a pod that asks for a network card gets none of the network's.
func mayHaveCard(pod *corev1.Pod, namespace string, network *v1alpha1.TSNNetwork) error {
	asked := pod.Annotations[v1alpha1.DeviceAnnotation]
	switch {
	case asked != v1alpha1.DeviceVFIO:
		return nil
	case len(network.Spec.Cards) == 0:
		return refusal{fmt.Errorf("annotation %s is %s, and TSNNetwork %s has no cards for pods (spec.cards); give %s, or leave the annotation out",
			v1alpha1.DeviceAnnotation, asked, network.Name, v1alpha1.DeviceTap)}
	case !slices.Contains(network.Spec.CardNamespaces, namespace):
		return refusal{fmt.Errorf("annotation %s is %s, and pods of namespace %s may not have cards of TSNNetwork %s (spec.cardNamespaces); give %s, "+
			"or leave the annotation out", v1alpha1.DeviceAnnotation, asked, namespace, network.Name, v1alpha1.DeviceTap)}
	}
	return nil
}

// network finds one.
func (h *Handler) network(ctx context.Context, name string) (*v1alpha1.TSNNetwork, error) {
	network := &v1alpha1.TSNNetwork{}
	if err := h.get(ctx, name, network); apierrors.IsNotFound(err) {
		return nil, refusal{fmt.Errorf("annotation %s: there is no TSNNetwork %s; `kubectl get tsnnetworks` lists those that there are",
			v1alpha1.NetworkAnnotation, name)}
	} else if err != nil {
		return nil, fmt.Errorf("look for network %s: %w", name, err)
	}
	return network, nil
}

// mayJoin says why pods of a namespace may not be on a network.
func (h *Handler) mayJoin(ctx context.Context, namespace string, network *v1alpha1.TSNNetwork) error {
	if network.DeletionTimestamp != nil {
		return refusal{fmt.Errorf("TSNNetwork %s is being deleted, and takes no more pods", network.Name)}
	}
	if network.Spec.NamespaceSelector == nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(network.Spec.NamespaceSelector)
	if err != nil {
		return refusal{fmt.Errorf("TSNNetwork %s: spec.namespaceSelector: %w; correct it", network.Name, err)}
	}
	about := &corev1.Namespace{}
	if err := h.get(ctx, namespace, about); err != nil {
		return fmt.Errorf("look at namespace %s: %w", namespace, err)
	}
	if !selector.Matches(labels.Set(about.Labels)) {
		return refusal{fmt.Errorf("pods of namespace %s may not be on TSNNetwork %s: its spec.namespaceSelector (%s) does not select the namespace",
			namespace, network.Name, metav1.FormatLabelSelector(network.Spec.NamespaceSelector))}
	}
	return nil
}

// get asks the API server itself for what the cache does not know: it may have been made a moment ago. What it returns is the
// cache's own, and only to be read: a network of many nodes is large.
func (h *Handler) get(ctx context.Context, name string, into client.Object) error {
	return h.getIn(ctx, types.NamespacedName{Name: name}, into)
}

func (h *Handler) getIn(ctx context.Context, key types.NamespacedName, into client.Object) error {
	err := h.Cached.Get(ctx, key, into, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		err = h.Live.Get(ctx, key, into)
	}
	return err
}
