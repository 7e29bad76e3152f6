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
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
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

// kataOf is where the network devices of a pod are if its runtime is Kata, else "". A runtime that seems to be Kata, and that the
// operator was not told of, is worth a warning.
func (h *Handler) kataOf(ctx context.Context, pod *corev1.Pod) (where, warning string, err error) {
	name := pod.Spec.RuntimeClassName
	switch {
	case name == nil:
		return "", "", nil
	case len(h.Kata) == 0: // then it may not read RuntimeClasses, whose handlers mostly have their names
		return "", warnOfKata("RuntimeClass", *name), nil
	}
	class := &nodev1.RuntimeClass{}
	if err := h.get(ctx, *name, class); apierrors.IsNotFound(err) {
		return "", "", refusal{fmt.Errorf("runtimeClassName is %s, and there is no such RuntimeClass, so nobody knows how the pod's interface is to be connected; "+
			"`kubectl get runtimeclasses` lists those that there are", *name)}
	} else if err != nil {
		return "", "", fmt.Errorf("look for RuntimeClass %s: %w", *name, err)
	}
	where, known := h.Kata[class.Handler]
	if !known {
		warning = warnOfKata("handler", class.Handler)
	}
	return where, warning, nil
}

// warnOfKata is a sentence for who makes a pod by a runtime of such a name; "" if that is not Kata's.
func warnOfKata(what, name string) string {
	if !strings.HasPrefix(name, tsnnetwork.KataHandlers) {
		return ""
	}
	return fmt.Sprintf("%s %s of the pod seems to be Kata's, and kata.handlers of the chart does not name it: programs in its machine would not reach "+
		"their networks; name the handler there and make the pod anew", what, name)
}

// kataDevice says how the pod's virtual machine is connected that Kata makes, unless the pod says it.
func kataDevice(pod *corev1.Pod, where string, asked map[string]string) error {
	if where == "" {
		return nil
	}
	kind, given := asked[device.KindName]
	switch {
	case where == device.Veth && kind == device.VFIO:
		return fmt.Errorf("annotation %s is %q, and a card reaches the machine by a file of network devices, which the runtime of the pod does not read (kata.handlers of "+
			"the chart says %s); take a RuntimeClass whose handler has a folder there", v1alpha1.DeviceAnnotation, kind, where)
	case where == device.Veth && given && kind != device.Veth:
		return fmt.Errorf("annotation %s is %q, and the runtime of the pod, Kata, takes the interface itself (%s); remove the annotation", v1alpha1.DeviceAnnotation,
			kind, device.Veth)
	case where == device.Veth && asked[device.ClassName] == device.ClassQueue:
		return fmt.Errorf("annotation %s is %s, and of a %s nobody sees by which queue a frame left the machine; give %s or %s", v1alpha1.DeviceClassAnnotation,
			device.ClassQueue, device.Veth, device.ClassRecord, device.ClassPCP)
	case where == device.Veth:
		asked[device.KindName] = device.Veth
	case kind == device.Veth:
		return fmt.Errorf("annotation %s is %q, and the runtime of the pod, Kata, does not look into the network namespace; give %s or %s", v1alpha1.DeviceAnnotation,
			kind, device.Tap, device.VhostUser)
	default:
		if !given {
			asked[device.KindName] = device.Tap
		}
		asked[device.DANName] = where
	}
	if err := checkProcessors(pod, asked[device.QueuesName]); err != nil {
		return err
	}
	pod.Annotations[v1alpha1.DeviceAnnotation] = asked[device.KindName]
	return nil
}
