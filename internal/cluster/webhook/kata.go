// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// Kata says of each handler of RuntimeClasses that is Kata's where its pods' network devices are: device.Veth for the pod's network
// namespace, or the folder of Kata's directly attachable network.
type Kata map[string]string

// String writes it as Set reads it.
func (k Kata) String() string {
	var all []string
	for _, handler := range slices.Sorted(maps.Keys(k)) {
		all = append(all, handler+"="+k[handler])
	}
	return strings.Join(all, ",")
}

// Set adds HANDLER=veth or HANDLER=FOLDER, several with commas between.
func (k *Kata) Set(text string) error {
	read := maps.Clone(*k)
	if read == nil {
		read = Kata{}
	}
	for part := range strings.SplitSeq(text, ",") {
		handler, where, _ := strings.Cut(part, "=")
		if handler == "" || (where != device.Veth && !device.IsDANFolder(where)) {
			return fmt.Errorf("%q: give HANDLER=%s, or HANDLER= and a folder in /run/kata-containers", part, device.Veth)
		}
		read[handler] = where
	}
	*k = read
	return nil
}

// kataOf is where the network devices of a pod are if its runtime is Kata, else "".
func (h *Handler) kataOf(ctx context.Context, pod *corev1.Pod) (string, error) {
	name := pod.Spec.RuntimeClassName
	if name == nil || len(h.Kata) == 0 {
		return "", nil
	}
	class := &nodev1.RuntimeClass{}
	if err := h.get(ctx, *name, class); apierrors.IsNotFound(err) {
		return "", refusal{fmt.Errorf("runtimeClassName is %s, and there is no such RuntimeClass, so nobody knows how the pod's interface is to be connected; "+
			"`kubectl get runtimeclasses` lists those that there are", *name)}
	} else if err != nil {
		return "", fmt.Errorf("look for RuntimeClass %s: %w", *name, err)
	}
	return h.Kata[class.Handler], nil
}

// kataDevice says how the pod's virtual machine is connected that Kata makes, unless the pod says it.
func kataDevice(pod *corev1.Pod, kata string, asked map[string]string) error {
	if kata == "" {
		return nil
	}
	kind, given := asked[device.KindName]
	switch {
	case kata == device.Veth && given && kind != device.Veth:
		return fmt.Errorf("annotation %s is %q, and the runtime of the pod, Kata, takes the interface itself (%s); remove the annotation", v1alpha1.DeviceAnnotation,
			kind, device.Veth)
	case kata == device.Veth && asked[device.ClassName] == device.ClassQueue:
		return fmt.Errorf("annotation %s is %s, and of a %s nobody sees by which queue a frame left the machine; give %s or %s", v1alpha1.DeviceClassAnnotation,
			device.ClassQueue, device.Veth, device.ClassRecord, device.ClassPCP)
	case kata == device.Veth:
		asked[device.KindName] = device.Veth
	case kind == device.Veth:
		return fmt.Errorf("annotation %s is %q, and the runtime of the pod, Kata, does not look into the network namespace; give %s or %s", v1alpha1.DeviceAnnotation,
			kind, device.Tap, device.VhostUser)
	default:
		if !given {
			asked[device.KindName] = device.Tap
		}
		asked[device.DANName] = kata
	}
	if err := checkProcessors(pod, asked[device.QueuesName]); err != nil {
		return err
	}
	pod.Annotations[v1alpha1.DeviceAnnotation] = asked[device.KindName]
	return nil
}

// processors is Kata's annotation for those of a pod's machine.
const processors = "io.katacontainers.config.hypervisor.default_vcpus"

// checkProcessors refuses several queues of a machine that says itself that it has one processor.
func checkProcessors(pod *corev1.Pod, queues string) error {
	if pod.Annotations[processors] != "1" || queues == "" || queues == "1" {
		return nil
	}
	return fmt.Errorf("annotation %s is %q, and the pod's machine has one processor (annotation %s): a queue would wait while another is served; "+
		"give it two, or one queue", v1alpha1.DeviceQueuesAnnotation, queues, processors)
}
