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
	// migrationLabel is that of the pod into which a running machine is to move.
	migrationLabel = "kubevirt.io/migrationJobUID"
	// qemuUser is who runs QEMU there.
	qemuUser = 107
)

// deviceAnnotations are those that say what a device is asked for.
var deviceAnnotations = map[string]string{
	device.KindName: v1alpha1.DeviceAnnotation, device.QueuesName: v1alpha1.DeviceQueuesAnnotation,
	device.ClassName: v1alpha1.DeviceClassAnnotation, device.OwnerName: v1alpha1.DeviceOwnerAnnotation,
}

func isLauncher(pod *corev1.Pod) bool { return pod.Labels[launcherLabel] == launcher }

// errMigration says why a machine does not move: the pod of its future is refused before anything of it is there.
var errMigration = errors.New("a virtual machine on a network cannot migrate while it runs: its transmit times and its relay are those of the node " +
	"on which it is; stop it and start it on the other node, or take it off the network before")

// deviceOf reads how a virtual machine in the pod is connected. Of one of KubeVirt or Kata the annotation is added, for who reads the
// pod later.
func deviceOf(pod *corev1.Pod, kata string) (device.Device, error) {
	if _, moves := pod.Labels[migrationLabel]; moves {
		return device.Device{}, errMigration
	}
	if _, given := pod.Annotations[v1alpha1.DeviceAnnotation]; !given && isLauncher(pod) {
		pod.Annotations[v1alpha1.DeviceAnnotation] = v1alpha1.DeviceTap
	}
	asked := map[string]string{}
	for name, annotation := range deviceAnnotations {
		if value, given := pod.Annotations[annotation]; given {
			asked[name] = value
		}
	}
	if _, given := asked[device.OwnerName]; !given && isLauncher(pod) {
		asked[device.OwnerName] = strconv.Itoa(qemuUser)
	}
	if err := kataDevice(pod, kata, asked); err != nil {
		return device.Device{}, err
	}
	wanted, err := device.Parse(asked)
	if err != nil {
		return device.Device{}, fmt.Errorf("annotation kubernetsn.io/%w", err)
	}
	return wanted, checkBeside(pod, wanted)
}

// checkBeside refuses what says something of programs where a virtual machine has the pod's interfaces.
func checkBeside(pod *corev1.Pod, wanted device.Device) error {
	if !wanted.Exists() {
		return nil
	}
	for _, annotation := range []string{v1alpha1.ReceiveAnnotation, v1alpha1.UnseenAnnotation} {
		if _, given := pod.Annotations[annotation]; given {
			return fmt.Errorf("annotation %s is for programs of the pod, and a virtual machine has its interfaces (%s: %s); remove it",
				annotation, v1alpha1.DeviceAnnotation, wanted.Kind)
		}
	}
	return nil
}

// deviceArguments are those of tsn-cni.
func deviceArguments(wanted device.Device) map[string]any {
	arguments := map[string]any{
		device.KindName: wanted.Kind, device.QueuesName: wanted.Queues, device.ClassName: wanted.Class, device.OwnerName: wanted.Owner,
	}
	if wanted.DAN != "" {
		arguments[device.DANName] = wanted.DAN
	}
	return arguments
}
