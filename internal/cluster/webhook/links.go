// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Links configures what pods with links get.
type Links struct {
	// Namespace is the operator's namespace, which has the attachment of pods with links.
	Namespace string
	// Image is the image of the init container that waits for links.
	Image      string
	PullPolicy corev1.PullPolicy
}

// sandboxInterface is the interface name in the attachment of pods with links; tsn-cni does not create the interface.
const sandboxInterface = "ktsn-links"

// addLinks adds what the pod's link labels request. A missing service gives only a warning: manifests may be applied in any order, and the
// pod waits.
func (h *Handler) addLinks(ctx context.Context, pod *corev1.Pod, namespace string) (warnings []string, err error) {
	roles, errs := links.ParseRoles(pod.Labels, namespace)
	if len(errs) > 0 {
		return nil, refusal{errs[0]}
	}
	kata, warning, err := h.kataDevices(ctx, pod)
	if err != nil {
		return nil, err
	}
	if warning != "" && pod.Annotations[v1alpha1.NetworkAnnotation] == "" {
		warnings = append(warnings, warning)
	}
	if err := checkLinkSupport(pod, roles, kata); err != nil {
		return nil, refusal{err}
	}
	if _, err := tsnnetwork.LinkRoutesOf(pod.Annotations[v1alpha1.LinkRoutesAnnotation]); err != nil {
		return nil, refusal{err}
	}
	for i := range roles {
		warning, err := h.checkRole(ctx, pod, namespace, &roles[i])
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

// checkLinkSupport returns an error if a pod cannot have links.
func checkLinkSupport(pod *corev1.Pod, roles []links.Role, kata string) error {
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

// checkRole returns an error if a pod may not have the role of one of its labels.
func (h *Handler) checkRole(ctx context.Context, pod *corev1.Pod, namespace string, role *links.Role) (warning string, err error) {
	service := &v1alpha1.TSNService{}
	err = h.get(ctx, types.NamespacedName{Namespace: role.Namespace, Name: role.Service}, service)
	if apierrors.IsNotFound(err) {
		return fmt.Sprintf("label %s: there is no TSNService %s in namespace %s; the pod waits for its link until it is created", role.Label, role.Service, role.Namespace), nil
	}
	if err != nil {
		return "", fmt.Errorf("get TSNService %s/%s: %w", role.Namespace, role.Service, err)
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
	object := &corev1.Namespace{}
	if err := h.get(ctx, types.NamespacedName{Name: namespace}, object); err != nil {
		return "", fmt.Errorf("get namespace %s: %w", namespace, err)
	}
	if err := links.CheckClient(service, namespace, object.Labels); err != nil {
		return "", refusal{err}
	}
	return "", nil
}

// add adds volume, library, attachment and wait container to a pod.
func (l *Links) add(pod *corev1.Pod, namespace string, roles []links.Role) error {
	taken, err := interfacesOf(pod, namespace)
	if err != nil {
		return err
	}
	if err := links.CheckInterfaces(roles, taken); err != nil {
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
	markPod(pod)
	return nil
}

// interfacesOf returns a pod's interfaces other than those of links, with a description of each.
func interfacesOf(pod *corev1.Pod, namespace string) (map[string]string, error) {
	taken := map[string]string{"lo": "the loopback", "eth0": "of the primary network", sandboxInterface: "by which nodes know pods with links"}
	existing, err := attachmentsOf(pod, namespace)
	if err != nil {
		return nil, err
	}
	for number, element := range existing {
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

const (
	// waiterName is the name of the init container that ends when the links of a client are up.
	waiterName = "ktsn-wait"
	waiterPath = "/usr/bin/ktsn-wait"
	// tokenPath is where the API server mounts a pod's token, unless the container has another mount there.
	tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	// waiterUser owns nothing.
	waiterUser = 65532
)

// waitInterfaces returns the interfaces for which the containers of a pod wait. A chain element does not wait, because it must be ready
// before a link leads to it.
func waitInterfaces(roles []links.Role) []string {
	var names []string
	for i := range roles {
		role := &roles[i]
		offers := func(other links.Role) bool {
			return !other.Client && other.Service == role.Service && other.Namespace == role.Namespace
		}
		if role.Client && !slices.ContainsFunc(roles, offers) {
			names = append(names, role.Interface)
		}
	}
	return names
}

// addWaiter adds an init container that waits for a client's links.
func (l *Links) addWaiter(pod *corev1.Pod, roles []links.Role) error {
	names := waitInterfaces(roles)
	if len(names) == 0 {
		return nil
	}
	volume, err := addVolume(pod)
	if err != nil {
		return err
	}
	container, inits := l.waitContainer(volume, names), slices.Clone(pod.Spec.InitContainers)
	isOwn := func(c *corev1.Container) bool {
		return slices.Equal(c.Command, container.Command) && slices.Equal(c.Args, container.Args)
	}
	at := slices.IndexFunc(inits, isWaiter)
	if slices.ContainsFunc(pod.Spec.Containers, isWaiter) || at >= 0 && !isOwn(&inits[at]) {
		return fmt.Errorf("the pod already has a container %s, which is the name of the one that waits for its links; rename it", waiterName)
	}
	if at >= 0 { // another webhook may have inserted a container before it
		container = inits[at]
		inits = slices.Delete(inits, at, at+1)
	}
	pod.Spec.InitContainers = slices.Insert(inits, 0, container)
	return nil
}

func isWaiter(container corev1.Container) bool { return container.Name == waiterName }

// waitContainer returns the init container, without token and privileges. Its limits equal its requests, so that a Guaranteed pod stays
// Guaranteed.
func (l *Links) waitContainer(volume string, names []string) corev1.Container {
	no, yes, user := false, true, int64(waiterUser)
	needs := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("24Mi")}
	return corev1.Container{
		Name: waiterName, Image: l.Image, ImagePullPolicy: l.PullPolicy, Command: []string{waiterPath}, Args: names,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Resources:                corev1.ResourceRequirements{Requests: needs, Limits: needs},
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: volume, MountPath: mountPath, ReadOnly: true},
			{Name: volume, MountPath: tokenPath, ReadOnly: true}, // so that the API server mounts no token there
		},
	}
}
