// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
)

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
