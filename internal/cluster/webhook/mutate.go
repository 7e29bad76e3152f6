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
	// mountPath is the folder where libktsn.so expects the socket.
	mountPath       = "/run/ktsn"
	libraryName     = "libktsn.so"
	libraryPath     = mountPath + "/" + libraryName
	preloadVariable = "LD_PRELOAD"
	// receiveVariable makes libktsn.so request receive rings.
	receiveVariable = "KTSN_RECEIVE"
	// offNetworkVariable makes libktsn.so send messages early that leave through other interfaces.
	offNetworkVariable = "KTSN_OFF_NETWORK"
)

// mutate attaches a pod to networks; kata is where the devices of a Kata virtual machine are (see kataDevices). It is idempotent. The
// error is for the pod's owner, and the pod may be partly changed then.
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
	// A socket of the node is not reachable in a Kata virtual machine.
	if !machine.IsOfRuntime() {
		if err := addToContainers(pod, machine); err != nil {
			return err
		}
	}
	markPod(pod)
	return nil
}

// markPod sets the label by which the operator finds the pod, and selects nodes on which KuberneTSN runs.
func markPod(pod *corev1.Pod) {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[v1alpha1.PodLabel] = v1alpha1.LabelValue
	selectArchitecture(pod)
}

// addToContainers mounts the pod's volume in containers, and preloads libktsn.so into their programs.
func addToContainers(pod *corev1.Pod, machine device.Device) error {
	containers, err := preloadContainers(pod)
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
			continue // the virtual machine sends, not the containers' programs
		}
		if err := addPreload(container); err != nil {
			return err
		}
		if _, asked := pod.Annotations[v1alpha1.ReceiveAnnotation]; asked {
			addVariable(container, receiveVariable, v1alpha1.ReceiveRing)
		}
		if pod.Annotations[v1alpha1.OffNetworkAnnotation] == v1alpha1.OffNetworkPass {
			addVariable(container, offNetworkVariable, v1alpha1.OffNetworkPass)
		}
	}
	return nil
}

// checkPod returns an error if a pod cannot have an interface. requestedBy is the annotation or label that requests one.
func checkPod(pod *corev1.Pod, requestedBy string) error {
	switch {
	case pod.Spec.HostNetwork:
		return fmt.Errorf("the pod has hostNetwork: true and so no interface of its own for a network; remove hostNetwork, or %s", requestedBy)
	case pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows:
		return fmt.Errorf("the pod is for Windows (spec.os.name), and networks are for Linux; remove %s", requestedBy)
	}
	return checkPlace(pod)
}

// preloadContainers returns the containers whose timed messages are taken: those in the annotation, or all except ordinary init containers.
// Sidecars are included.
func preloadContainers(pod *corev1.Pod) ([]*corev1.Container, error) {
	var all, defaults []*corev1.Container
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		all = append(all, container)
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			defaults = append(defaults, container)
		}
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
		defaults = append(defaults, &pod.Spec.Containers[i])
	}
	value, given := pod.Annotations[v1alpha1.ContainersAnnotation]
	if !given {
		return defaults, nil
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

// addVolume adds the volume of the CSI driver if it is missing, and returns its name.
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

// addPreload adds libktsn.so to LD_PRELOAD, after existing entries.
func addPreload(container *corev1.Container) error {
	// The last variable of the same name is effective.
	for i := len(container.Env) - 1; i >= 0; i-- {
		variable := &container.Env[i]
		if variable.Name != preloadVariable {
			continue
		}
		if variable.ValueFrom != nil {
			return fmt.Errorf("container %s sets %s by valueFrom, so nothing can be added to it; give it as a value, optionally with %s "+
				"in it", container.Name, preloadVariable, libraryPath)
		}
		value, err := joinPreload(variable.Value)
		if err != nil {
			return fmt.Errorf("container %s: %w", container.Name, err)
		}
		variable.Value = value
		return nil
	}
	container.Env = append(container.Env, corev1.EnvVar{Name: preloadVariable, Value: libraryPath})
	return nil
}

// addVariable sets a variable of libktsn.so, unless the container sets it.
func addVariable(container *corev1.Container, name, value string) {
	if !slices.ContainsFunc(container.Env, func(variable corev1.EnvVar) bool { return variable.Name == name }) {
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
	}
}

func joinPreload(value string) (string, error) {
	for _, file := range strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == ' ' }) {
		switch {
		case file == libraryPath:
			return value, nil
		case path.Base(file) == libraryName:
			return "", fmt.Errorf("%s names %s, and two of that library in one process would both take its messages; remove it, "+
				"the webhook adds %s", preloadVariable, file, libraryPath)
		}
	}
	if strings.Trim(value, ": ") == "" {
		return libraryPath, nil
	}
	return strings.TrimRight(value, ": ") + ":" + libraryPath, nil
}
