// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// Labels of KubeVirt on the pods that run its virtual machines.
const (
	// launcherLabel has the value launcher.
	launcherLabel = "kubevirt.io"
	launcher      = "virt-launcher"
	// migrationLabel is on the target pod of a live migration.
	migrationLabel = "kubevirt.io/migrationJobUID"
	// qemuUser is the user ID of QEMU there.
	qemuUser = 107
)

// deviceAnnotations are the annotations that request a device, by argument.
var deviceAnnotations = map[string]string{
	device.KindName: v1alpha1.DeviceAnnotation, device.QueuesName: v1alpha1.DeviceQueuesAnnotation,
	device.ClassName: v1alpha1.DeviceClassAnnotation, device.OwnerName: v1alpha1.DeviceOwnerAnnotation,
}

func isLauncher(pod *corev1.Pod) bool { return pod.Labels[launcherLabel] == launcher }

// errMigration rejects the target pod of a live migration.
var errMigration = errors.New("a virtual machine on a network cannot migrate while it runs: its transmit times and its relay are those of the node " +
	"on which it is; stop it and start it on the other node, or take it off the network before")

// deviceOf returns how a virtual machine in the pod is connected. For KubeVirt and Kata it adds the annotation, for later readers of the pod.
func deviceOf(pod *corev1.Pod, kata string) (device.Device, error) {
	if _, moves := pod.Labels[migrationLabel]; moves {
		return device.Device{}, errMigration
	}
	if _, given := pod.Annotations[v1alpha1.DeviceAnnotation]; !given && isLauncher(pod) {
		pod.Annotations[v1alpha1.DeviceAnnotation] = v1alpha1.DeviceTap
	}
	requested := map[string]string{}
	for name, annotation := range deviceAnnotations {
		if value, given := pod.Annotations[annotation]; given {
			requested[name] = value
		}
	}
	if _, given := requested[device.OwnerName]; !given && isLauncher(pod) {
		requested[device.OwnerName] = strconv.Itoa(qemuUser)
	}
	if err := applyKata(pod, kata, requested); err != nil {
		return device.Device{}, err
	}
	parsed, err := device.Parse(requested)
	if err != nil {
		return device.Device{}, fmt.Errorf("annotation kubernetsn.io/%w", err)
	}
	return parsed, checkDeviceConflicts(pod, parsed)
}

// checkDeviceConflicts returns an error for annotations about programs if a virtual machine has the pod's interfaces.
func checkDeviceConflicts(pod *corev1.Pod, vmDevice device.Device) error {
	if !vmDevice.Exists() {
		return nil
	}
	for _, annotation := range []string{v1alpha1.ReceiveAnnotation, v1alpha1.UnseenAnnotation} {
		if _, given := pod.Annotations[annotation]; given {
			return fmt.Errorf("annotation %s is for programs of the pod, and a virtual machine has its interfaces (%s: %s); remove it",
				annotation, v1alpha1.DeviceAnnotation, vmDevice.Kind)
		}
	}
	return nil
}

// deviceArguments returns the arguments of tsn-cni for a device.
func deviceArguments(vmDevice device.Device) map[string]any {
	arguments := map[string]any{
		device.KindName: vmDevice.Kind, device.QueuesName: vmDevice.Queues, device.ClassName: vmDevice.Class, device.OwnerName: vmDevice.Owner,
	}
	if vmDevice.DAN != "" {
		arguments[device.DANName] = vmDevice.DAN
	}
	return arguments
}
