// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

const (
	volumeName = "ktsn"
	// mountPath is where libktsn.so looks for the socket.
	mountPath   = "/run/ktsn"
	libraryName = "libktsn.so"
	library     = mountPath + "/" + libraryName
	preload     = "LD_PRELOAD"
	// receive has libktsn.so ask for receive rings.
	receive = "KTSN_RECEIVE"
)

// mutate puts a pod on networks, whose virtual machine of Kata has its devices where kata says (see kataOf). What it has done before
// it leaves alone, so that a pod may come twice. The error is for the pod's owner; the pod is of no use then.
func mutate(pod *corev1.Pod, namespace string, networks []string, kata string) error {
	if err := checkPod(pod, "the annotation "+v1alpha1.NetworkAnnotation); err != nil {
		return err
	}
	machine, err := deviceOf(pod, kata)
	if err != nil {
		return err
	}
	if err := attach(pod, namespace, networks, machine); err != nil {
		return err
	}
	// A socket of the node does not reach into Kata's machine.
	if !machine.IsOfRuntime() {
		if err := addToContainers(pod, machine); err != nil {
			return err
		}
	}
	mark(pod)
	return nil
}

// mark gives a pod the label by which it is found.
func mark(pod *corev1.Pod) {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[v1alpha1.PodLabel] = v1alpha1.LabelValue
}

// addToContainers gives containers the pod's volume, and has their programs use it.
func addToContainers(pod *corev1.Pod, machine device.Device) error {
	containers, err := chosen(pod)
	if err != nil {
		return err
	}
	volume, err := addVolume(pod)
	if err != nil {
		return err
	}
	for _, container := range containers {
		if err := addMount(container, volume); err != nil {
			return err
		}
		if machine.Exists() {
			continue // its programs do not send
		}
		if err := addPreload(container); err != nil {
			return err
		}
		if _, asked := pod.Annotations[v1alpha1.ReceiveAnnotation]; asked {
			addReceive(container)
		}
	}
	return nil
}

// checkPod refuses pods that can have no interface of their own. By is what asks for one.
func checkPod(pod *corev1.Pod, by string) error {
	switch {
	case pod.Spec.HostNetwork:
		return fmt.Errorf("the pod has hostNetwork: true and so no interface of its own for a network; remove hostNetwork, or %s", by)
	case pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows:
		return fmt.Errorf("the pod is for Windows (spec.os.name), and networks are for Linux; remove %s", by)
	}
	return nil
}

// chosen are the containers whose timed messages are taken: those that the annotation names, else all but the init
// containers that end before the others begin. (Sidecars, which are init containers that go on, are among them.)
func chosen(pod *corev1.Pod) ([]*corev1.Container, error) {
	var all, usual []*corev1.Container
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		all = append(all, container)
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			usual = append(usual, container)
		}
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
		usual = append(usual, &pod.Spec.Containers[i])
	}
	value, given := pod.Annotations[v1alpha1.ContainersAnnotation]
	if !given {
		return usual, nil
	}
	names, err := tsnnetwork.ContainersOf(value)
	if err != nil {
		return nil, err
	}
	var named []*corev1.Container
	for _, name := range names {
		at := slices.IndexFunc(all, func(container *corev1.Container) bool { return container.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("annotation %s names %s, and the pod has no such container; it has %s", v1alpha1.ContainersAnnotation,
				name, namesOf(all))
		}
		named = append(named, all[at])
	}
	return named, nil
}

func namesOf(containers []*corev1.Container) string {
	var names []string
	for _, container := range containers {
		names = append(names, container.Name)
	}
	return strings.Join(names, ", ")
}

// addVolume returns the name of the pod's volume of the CSI driver, which may be there already.
func addVolume(pod *corev1.Pod) (string, error) {
	for _, volume := range pod.Spec.Volumes {
		switch {
		case volume.CSI != nil && volume.CSI.Driver == v1alpha1.CSIDriver:
			return volume.Name, nil
		case volume.Name == volumeName:
			return "", fmt.Errorf("the pod has a volume %s of its own, which is the name of the one with %s; rename it", volumeName, libraryName)
		}
	}
	readOnly := true
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volumeName, VolumeSource: corev1.VolumeSource{
		CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.CSIDriver, ReadOnly: &readOnly},
	}})
	return volumeName, nil
}

func addMount(container *corev1.Container, volume string) error {
	for _, mount := range container.VolumeMounts {
		if path.Clean(mount.MountPath) != mountPath {
			continue
		}
		if mount.Name == volume {
			return nil
		}
		return fmt.Errorf("container %s has volume %s mounted at %s, where %s and the socket of ktsnd have to be; mount it elsewhere",
			container.Name, mount.Name, mountPath, libraryName)
	}
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: mountPath, ReadOnly: true})
	return nil
}

// addPreload has the dynamic loader load libktsn.so, behind what it is to load already.
func addPreload(container *corev1.Container) error {
	// The last one of the same name counts.
	for i := len(container.Env) - 1; i >= 0; i-- {
		variable := &container.Env[i]
		if variable.Name != preload {
			continue
		}
		if variable.ValueFrom != nil {
			return fmt.Errorf("container %s takes %s from elsewhere (valueFrom), so nothing can be added to it; give it as a value, with %s "+
				"in it if you like", container.Name, preload, library)
		}
		value, err := joinPreload(variable.Value)
		if err != nil {
			return fmt.Errorf("container %s: %w", container.Name, err)
		}
		variable.Value = value
		return nil
	}
	container.Env = append(container.Env, corev1.EnvVar{Name: preload, Value: library})
	return nil
}

// addReceive has libktsn.so ask for receive rings, unless the container says something else of that.
func addReceive(container *corev1.Container) {
	if !slices.ContainsFunc(container.Env, func(variable corev1.EnvVar) bool { return variable.Name == receive }) {
		container.Env = append(container.Env, corev1.EnvVar{Name: receive, Value: v1alpha1.ReceiveRing})
	}
}

func joinPreload(value string) (string, error) {
	for _, file := range strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == ' ' }) {
		switch {
		case file == library:
			return value, nil
		case path.Base(file) == libraryName:
			return "", fmt.Errorf("%s names %s, and two of that library in one process would both take its messages; remove it, "+
				"the webhook adds %s", preload, file, library)
		}
	}
	if strings.Trim(value, ": ") == "" {
		return library, nil
	}
	return strings.TrimRight(value, ": ") + ":" + library, nil
}
