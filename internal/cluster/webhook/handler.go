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

// Path is the webhook's URL path.
const Path = "/mutate-pod"

// Handler handles admission requests.
type Handler struct {
	// Cached reads from the cache, which may miss recent objects, Live from the API server.
	Cached, Live client.Reader
	// Kata has the RuntimeClass handlers of Kata Containers.
	Kata Kata
	// Links configures what pods with links get.
	Links Links
}

// mirrorRefused is the error for static pods, which cannot have networks or links. The policy kubernetsn-pods has the same message.
const mirrorRefused = "the pod has the annotation " + corev1.MirrorPodAnnotationKey + ": kubelet starts it from a file of its node, and nothing can be added to it, " +
	"so that it can be on no network and have no links; remove the annotation " + v1alpha1.NetworkAnnotation + " and the labels " +
	v1alpha1.ClientLabelPrefix + " and " + v1alpha1.EndpointLabelPrefix + " from the file, or make the pod at the API server"

// refusal is an error of the pod's owner; other errors are internal.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// Handle implements admission.Handler.
func (h *Handler) Handle(ctx context.Context, request admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(request.Object.Raw, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode the pod: %w", err))
	}
	_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
	if _, named := pod.Annotations[v1alpha1.NetworkAnnotation]; static && (named || links.HasLinkLabel(pod.Labels)) {
		return admission.Denied(mirrorRefused)
	}
	before := pod.DeepCopy()
	warnings, err := h.mutatePod(ctx, pod, request.Namespace)
	var refused refusal
	if errors.As(err, &refused) {
		return admission.Denied(err.Error())
	}
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	patch, err := patchOf(before, pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("compare the pods: %w", err))
	}
	return admission.Patched("", patch...).WithWarnings(warnings...)
}

// mutatePod adds what the pod's annotation and labels request. The API server does not send pods that have neither, unless they have another
// annotation of KuberneTSN.
func (h *Handler) mutatePod(ctx context.Context, pod *corev1.Pod, namespace string) (warnings []string, err error) {
	warnings = unknownAnnotations(pod)
	if value, named := pod.Annotations[v1alpha1.NetworkAnnotation]; named {
		more, err := h.joinNetworks(ctx, pod, namespace, value)
		if err != nil {
			return nil, err
		}
		warnings = append(warnings, more...)
	}
	if !links.HasLinkLabel(pod.Labels) {
		return warnings, nil
	}
	more, err := h.addLinks(ctx, pod, namespace)
	return append(warnings, more...), err
}

// joinNetworks attaches a pod to the networks in its annotation. The warnings are for the pod's owner.
func (h *Handler) joinNetworks(ctx context.Context, pod *corev1.Pod, namespace, value string) (warnings []string, err error) {
	names, err := tsnnetwork.NetworksOf(value)
	if err != nil {
		return nil, refusal{err}
	}
	var networks []*v1alpha1.TSNNetwork
	var clocked []string // networks with a clock requirement
	for _, name := range names {
		network, err := h.getNetwork(ctx, name)
		if err != nil {
			return nil, err
		}
		if err := h.checkNamespace(ctx, namespace, network); err != nil {
			return nil, err
		}
		if err := checkCard(pod, namespace, network); err != nil {
			return nil, err
		}
		warning, err := checkReady(network)
		if err != nil {
			return nil, err
		}
		if warning != "" {
			warnings = append(warnings, warning)
		}
		if network.Spec.Clock != nil {
			clocked = append(clocked, name)
		}
		networks = append(networks, network)
	}
	kata, warning, err := h.kataDevices(ctx, pod)
	if err != nil {
		return nil, err
	}
	if warning != "" {
		warnings = append(warnings, warning)
	}
	if err := mutate(pod, namespace, names, kata); err != nil {
		return nil, refusal{err}
	}
	if err := requestAddresses(pod, namespace, networks); err != nil {
		return nil, refusal{err}
	}
	if err := h.requestClaimed(ctx, pod, namespace, networks); err != nil {
		return nil, err
	}
	if err := h.checkRequests(ctx, pod, namespace, networks); err != nil {
		return nil, err
	}
	avoidLostClocks(pod, clocked)
	node, err := h.nodeWithoutGate(ctx)
	if err != nil {
		return nil, err
	}
	if node != "" {
		return append(warnings, fmt.Sprintf("the pod may be ready without its interfaces: it gets no readiness gate %s while the agent of node %s does not set "+
			"the condition; upgrade ktsn-agent there", v1alpha1.ConditionAttached, node)), nil
	}
	addReadinessGate(pod)
	return warnings, nil
}

// nodeWithoutGate returns a node whose agent is of a release that does not set the condition of the gate, "" for none. Pods with the gate would
// never be ready there. Idle nodes and nodes that are down keep the report of an agent that runs no more.
func (h *Handler) nodeWithoutGate(ctx context.Context) (name string, err error) {
	var states v1alpha1.TSNNodeList
	if err := h.Cached.List(ctx, &states, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list the agents' reports: %w", err)
	}
	for i := range states.Items {
		// An agent that has not reported yet is a new one.
		if status := &states.Items[i].Status; status.AgentVersion == "" || status.SetsAttached {
			continue
		}
		node := &corev1.Node{}
		err := h.Cached.Get(ctx, types.NamespacedName{Name: states.Items[i].Name}, node, client.UnsafeDisableDeepCopy)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return "", fmt.Errorf("get node %s: %w", states.Items[i].Name, err)
		case err == nil && runsAgent(node):
			return node.Name, nil
		}
	}
	return "", nil
}

// runsAgent reports whether a node runs an agent now.
func runsAgent(node *corev1.Node) bool {
	return node.Labels[v1alpha1.NodeLabel] == v1alpha1.LabelValue && slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
}

// addReadinessGate keeps the pod from being ready without its interfaces.
func addReadinessGate(pod *corev1.Pod) {
	gate := corev1.PodReadinessGate{ConditionType: v1alpha1.ConditionAttached}
	if !slices.Contains(pod.Spec.ReadinessGates, gate) {
		pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, gate)
	}
}

// checkCard returns an error if a pod requests a network card that the network does not give it.
func checkCard(pod *corev1.Pod, namespace string, network *v1alpha1.TSNNetwork) error {
	requested := pod.Annotations[v1alpha1.DeviceAnnotation]
	switch {
	case requested != v1alpha1.DeviceVFIO:
		return nil
	case len(network.Spec.Cards) == 0:
		return refusal{fmt.Errorf("annotation %s is %s, and TSNNetwork %s has no cards for pods (spec.cards); give %s, or leave the annotation out",
			v1alpha1.DeviceAnnotation, requested, network.Name, v1alpha1.DeviceTap)}
	case !slices.Contains(network.Spec.CardNamespaces, namespace):
		return refusal{fmt.Errorf("annotation %s is %s, and pods of namespace %s may not have cards of TSNNetwork %s (spec.cardNamespaces); give %s, "+
			"or leave the annotation out", v1alpha1.DeviceAnnotation, requested, namespace, network.Name, v1alpha1.DeviceTap)}
	}
	return nil
}

// getNetwork returns a network.
func (h *Handler) getNetwork(ctx context.Context, name string) (*v1alpha1.TSNNetwork, error) {
	network := &v1alpha1.TSNNetwork{}
	if err := h.get(ctx, types.NamespacedName{Name: name}, network); apierrors.IsNotFound(err) {
		return nil, refusal{fmt.Errorf("annotation %s: there is no TSNNetwork %s; `kubectl get tsnnetworks` lists all",
			v1alpha1.NetworkAnnotation, name)}
	} else if err != nil {
		return nil, fmt.Errorf("get network %s: %w", name, err)
	}
	return network, nil
}

// checkNamespace returns an error if pods of a namespace may not be on a network.
func (h *Handler) checkNamespace(ctx context.Context, namespace string, network *v1alpha1.TSNNetwork) error {
	if network.DeletionTimestamp != nil {
		return refusal{fmt.Errorf("TSNNetwork %s is being deleted and accepts no more pods", network.Name)}
	}
	if network.Spec.NamespaceSelector == nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(network.Spec.NamespaceSelector)
	if err != nil {
		return refusal{fmt.Errorf("TSNNetwork %s: spec.namespaceSelector: %w; correct it", network.Name, err)}
	}
	object := &corev1.Namespace{}
	if err := h.get(ctx, types.NamespacedName{Name: namespace}, object); err != nil {
		return fmt.Errorf("get namespace %s: %w", namespace, err)
	}
	if !selector.Matches(labels.Set(object.Labels)) {
		return refusal{fmt.Errorf("pods of namespace %s may not be on TSNNetwork %s: its spec.namespaceSelector (%s) does not select the namespace",
			namespace, network.Name, metav1.FormatLabelSelector(network.Spec.NamespaceSelector))}
	}
	return nil
}

// get reads an object from the cache, and from the API server if the cache does not have it yet. The object is shared with the cache and
// read only, because a network of many nodes is large.
func (h *Handler) get(ctx context.Context, key types.NamespacedName, into client.Object) error {
	err := h.Cached.Get(ctx, key, into, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		err = h.Live.Get(ctx, key, into)
	}
	return err
}
