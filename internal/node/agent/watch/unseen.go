// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/cni"
)

// guarded reads what the interfaces of the node's pods did not let out, by the pods' UIDs.
func (w *Watcher) guarded() map[string][]cni.Guarded {
	if w.Unseen == nil {
		return nil
	}
	all, err := w.Unseen()
	w.complain(unseenPart, err)
	of := map[string][]cni.Guarded{}
	for _, one := range all {
		if one.Back {
			w.Log.Warn("put back the filter against datagrams that libktsn.so does not see", "pod", one.Identity, "interface", one.Interface)
		}
		of[one.Identity] = append(of[one.Identity], one)
	}
	return of
}

// unseenPart is how what is unseen is called where it cannot be looked at.
const unseenPart = "datagrams that libktsn.so does not see"

// dropped says which programs send past libktsn.so, each once. Where none is known it says that much.
func dropped(interfaces []cni.Guarded) []finding {
	var found []finding
	for _, one := range interfaces {
		for _, program := range one.Programs {
			found = append(found, unseenOf(&one, fmt.Sprintf("program %q (process %d)", program.Name, program.PID), program.Name))
		}
		if one.Datagrams > 0 && len(one.Programs) == 0 {
			found = append(found, unseenOf(&one, "a program that could not be told", ""))
		}
	}
	return found
}

func unseenOf(one *cni.Guarded, who, name string) finding {
	return finding{ReasonUnseen, one.Interface + " " + name, fmt.Sprintf("Messages with a transmit time of %s did not come through libktsn.so, and %s "+
		"does not let them out, because they would leave early. Link the program dynamically and have it call sendmsg of the C library as usual; or "+
		"let them leave early by the annotation %s: %s", who, one.Interface, v1alpha1.UnseenAnnotation, v1alpha1.UnseenPass)}
}

// count adds what was dropped since the last look to the pod's figure.
func (w *Watcher) count(pod *corev1.Pod, interfaces []cni.Guarded, now map[string]uint64) {
	for _, one := range interfaces {
		key := one.PortName()
		before := w.counted[key]
		if one.Datagrams < before {
			before = 0 // another filter
		}
		if more := one.Datagrams - before; more > 0 {
			w.Dropped(pod.Namespace, pod.Name, more)
		}
		now[key] = one.Datagrams
	}
}
