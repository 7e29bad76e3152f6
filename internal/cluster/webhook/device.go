// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Kata maps each RuntimeClass handler of Kata Containers to the place of its pods' network devices: device.Veth for the pod's network
// namespace, or the folder of Kata's directly attachable network.
type Kata map[string]string

// Set parses comma-separated HANDLER=veth or HANDLER=FOLDER, and adds them.
func (k *Kata) Set(text string) error {
	parsed := maps.Clone(*k)
	if parsed == nil {
		parsed = Kata{}
	}
	for part := range strings.SplitSeq(text, ",") {
		handler, where, _ := strings.Cut(part, "=")
		if handler == "" || (where != device.Veth && !device.IsDANFolder(where)) {
			return fmt.Errorf("%q: give HANDLER=%s, or HANDLER= and a folder in /run/kata-containers", part, device.Veth)
		}
		parsed[handler] = where
	}
	*k = parsed
	return nil
}

// kataDevices returns where the network devices of a pod are if its runtime is Kata, else "". It warns about a runtime that seems to be
// Kata and is not configured, and refuses gVisor's.
func (h *Handler) kataDevices(ctx context.Context, pod *corev1.Pod) (where, warning string, err error) {
	name, unchecked := pod.Spec.RuntimeClassName, pod.Annotations[v1alpha1.RuntimeAnnotation] == v1alpha1.RuntimeUnchecked
	switch {
	case name == nil:
		return "", "", nil
	case isGVisor(*name) && !unchecked:
		return "", "", errGVisor("RuntimeClass", *name)
	}
	class := &nodev1.RuntimeClass{}
	if err := h.get(ctx, types.NamespacedName{Name: *name}, class); apierrors.IsNotFound(err) {
		return "", "", refusal{fmt.Errorf("runtimeClassName is %s, and there is no such RuntimeClass, so it is unknown how to connect the pod's interface; "+
			"`kubectl get runtimeclasses` lists all", *name)}
	} else if err != nil {
		return "", "", fmt.Errorf("get RuntimeClass %s: %w", *name, err)
	}
	if isGVisor(class.Handler) && !unchecked {
		return "", "", errGVisor("handler", class.Handler)
	}
	where, known := h.Kata[class.Handler]
	if !known {
		warning = kataWarning(class.Handler)
	}
	return where, warning, nil
}

// kataWarning returns a warning if a handler's name is like those of Kata, else "".
func kataWarning(handler string) string {
	if !strings.HasPrefix(handler, tsnnetwork.KataHandlers) {
		return ""
	}
	return fmt.Sprintf("handler %s of the pod seems to be Kata's, and kata.handlers of the chart does not name it: programs in its machine would not reach "+
		"their networks; add the handler there and recreate the pod", handler)
}

// applyKata sets how the pod's Kata virtual machine is connected, unless the pod requests it, and validates the request.
func applyKata(pod *corev1.Pod, where string, requested map[string]string) error {
	if where == "" {
		return nil
	}
	kind, given := requested[device.KindName]
	switch {
	case where == device.Veth && kind == device.VFIO:
		return fmt.Errorf("annotation %s is %q, and a card reaches the machine by a file of network devices, which the runtime of the pod does not read (kata.handlers of "+
			"the chart says %s); use a RuntimeClass whose handler has a folder there", v1alpha1.DeviceAnnotation, kind, where)
	case where == device.Veth && given && kind != device.Veth:
		return fmt.Errorf("annotation %s is %q, and the runtime of the pod, Kata, takes the interface itself (%s); remove the annotation", v1alpha1.DeviceAnnotation,
			kind, device.Veth)
	case where == device.Veth && requested[device.ClassName] == device.ClassQueue:
		return fmt.Errorf("annotation %s is %s, and with %s the queue by which a frame left the machine is unknown; give %s or %s", v1alpha1.DeviceClassAnnotation,
			device.ClassQueue, device.Veth, device.ClassRecord, device.ClassPCP)
	case where == device.Veth:
		requested[device.KindName] = device.Veth
	case kind == device.Veth:
		return fmt.Errorf("annotation %s is %q, and the runtime of the pod, Kata, does not look into the network namespace; give %s or %s", v1alpha1.DeviceAnnotation,
			kind, device.Tap, device.VhostUser)
	default:
		if !given {
			requested[device.KindName] = device.Tap
		}
		requested[device.DANName] = where
	}
	if err := checkProcessors(pod, requested[device.QueuesName]); err != nil {
		return err
	}
	pod.Annotations[v1alpha1.DeviceAnnotation] = requested[device.KindName]
	return nil
}

// checkProcessors returns an error for several queues of a machine that may have one processor: a queue would wait while another is
// served.
func checkProcessors(pod *corev1.Pod, queues string) error {
	if queues == "" || queues == "1" {
		return nil
	}
	count, because, err := tsnnetwork.ProcessorsOf(pod)
	if err != nil || count > 1 {
		return err
	}
	return fmt.Errorf("annotation %s is %q, and the pod's machine has one processor (%s): a queue would wait while another is served; give it two or more by "+
		"annotation %s or by limits of cpu, or one queue", v1alpha1.DeviceQueuesAnnotation, queues, because, tsnnetwork.ProcessorsAnnotation)
}

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
	for _, annotation := range []string{v1alpha1.ReceiveAnnotation, v1alpha1.UnseenAnnotation, v1alpha1.OffNetworkAnnotation} {
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
