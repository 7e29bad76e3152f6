// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Links is what pods with links are given.
type Links struct {
	// Namespace has the attachment of pods with links: the operator's own.
	Namespace string
	// Image is that of the init container which waits for links, with its pull policy.
	Image      string
	PullPolicy corev1.PullPolicy
}

// sandboxInterface is the name that Multus gives to the attachment of pods with links, of which tsn-cni makes no interface.
const sandboxInterface = "ktsn-links"

// link gives a pod what its labels of links ask for. A service that does not exist is worth a warning only, as a ConfigMap that does not:
// manifests may be applied in any order, and the pod waits.
func (h *Handler) link(ctx context.Context, pod *corev1.Pod, namespace string) (warnings []string, err error) {
	roles, wrong := links.RolesOf(pod.Labels, namespace)
	if len(wrong) > 0 {
		return nil, refusal{wrong[0]}
	}
	where, warning, err := h.kataOf(ctx, pod)
	if err != nil {
		return nil, err
	}
	if warning != "" && pod.Annotations[v1alpha1.NetworkAnnotation] == "" {
		warnings = append(warnings, warning)
	}
	if err := checkLinked(pod, roles, where); err != nil {
		return nil, refusal{err}
	}
	if _, err := tsnnetwork.LinkRoutesOf(pod.Annotations[v1alpha1.LinkRoutesAnnotation]); err != nil {
		return nil, refusal{err}
	}
	for i := range roles {
		warning, err := h.mayLink(ctx, pod, namespace, &roles[i])
		if err != nil {
			return nil, err
		}
		if warning != "" {
			warnings = append(warnings, warning)
		}
	}
	if err := h.Links.add(pod, namespace, roles); err != nil {
		return nil, refusal{err}
	}
	return warnings, nil
}

// checkLinked refuses pods that can have no links.
func checkLinked(pod *corev1.Pod, roles []links.Role, kata string) error {
	label := roles[0].Label
	if err := checkPod(pod, "the label "+label); err != nil {
		return err
	}
	_, machine := pod.Annotations[v1alpha1.DeviceAnnotation]
	switch {
	case kata != "":
		return fmt.Errorf("the pod has the label %s, and its runtime is Kata, whose machine takes no interface that comes while it runs; remove the label, or runtimeClassName",
			label)
	case machine || isLauncher(pod):
		return fmt.Errorf("the pod has the label %s, and a virtual machine has its interfaces (annotation %s), which takes none that comes while it runs; remove the label",
			label, v1alpha1.DeviceAnnotation)
	}
	clients := 0
	for i := range roles {
		if roles[i].Client {
			clients++
		}
	}
	if clients > links.MaxClientLabels {
		return fmt.Errorf("the pod is a client of %d services by labels %sSERVICE; it may be one of %d", clients, v1alpha1.ClientLabelPrefix, links.MaxClientLabels)
	}
	return nil
}

// mayLink says why a pod may not be what one of its labels says.
func (h *Handler) mayLink(ctx context.Context, pod *corev1.Pod, namespace string, role *links.Role) (warning string, err error) {
	service := &v1alpha1.TSNService{}
	err = h.getIn(ctx, types.NamespacedName{Namespace: role.Namespace, Name: role.Service}, service)
	if apierrors.IsNotFound(err) {
		return fmt.Sprintf("label %s: there is no TSNService %s in namespace %s; the pod waits for its link until somebody makes it", role.Label, role.Service, role.Namespace), nil
	}
	if err != nil {
		return "", fmt.Errorf("look for TSNService %s/%s: %w", role.Namespace, role.Service, err)
	}
	if _, both := pod.Labels[v1alpha1.EndpointLabelPrefix+role.Service]; role.Client && both && namespace == role.Namespace {
		if _, err := links.ElementOf(service, pod.Labels); err != nil {
			return "", refusal{err}
		}
		return "", nil
	}
	if !role.Client || namespace == role.Namespace {
		return "", nil
	}
	about := &corev1.Namespace{}
	if err := h.get(ctx, namespace, about); err != nil {
		return "", fmt.Errorf("look at namespace %s: %w", namespace, err)
	}
	if err := links.MayBeClient(service, namespace, about.Labels); err != nil {
		return "", refusal{err}
	}
	return "", nil
}

// add gives a pod volume, library, attachment and waiter.
func (l *Links) add(pod *corev1.Pod, namespace string, roles []links.Role) error {
	taken, err := interfacesOf(pod, namespace)
	if err != nil {
		return err
	}
	if err := links.Clashes(roles, taken); err != nil {
		return err
	}
	all := []attachment{{Name: v1alpha1.LinksAttachment, Namespace: l.Namespace, Interface: sandboxInterface}}
	if err := addAttachments(pod, namespace, all); err != nil {
		return err
	}
	if err := addToContainers(pod, device.Device{}); err != nil {
		return err
	}
	if err := l.addWaiter(pod, roles); err != nil {
		return err
	}
	mark(pod)
	return nil
}

// interfacesOf are the interfaces of a pod besides those of links, with what they are.
func interfacesOf(pod *corev1.Pod, namespace string) (map[string]string, error) {
	taken := map[string]string{"lo": "the loopback", "eth0": "of the primary network", sandboxInterface: "by which nodes know pods with links"}
	have, err := attachmentsOf(pod, namespace)
	if err != nil {
		return nil, err
	}
	for number, element := range have {
		name := element.InterfaceRequest
		if name == "" {
			name = "net" + strconv.Itoa(number+1) // as Multus calls it
		}
		if name != sandboxInterface {
			taken[name] = "of network " + element.Namespace + "/" + element.Name
		}
	}
	if networks, err := tsnnetwork.NetworksOf(pod.Annotations[v1alpha1.NetworkAnnotation]); err == nil {
		for number, network := range networks {
			taken[tsnnetwork.InterfaceOf(number)] = "of TSNNetwork " + network
		}
	}
	return taken, nil
}
