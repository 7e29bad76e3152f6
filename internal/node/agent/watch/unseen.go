// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
)

// guarded reads what the interfaces of the node's pods did not let out, by the pods' UIDs.
func (w *Watcher) guarded() map[string][]attachment.Guarded {
	if w.Unseen == nil {
		return nil
	}
	all, err := w.Unseen()
	w.complain(unseenPart, err)
	of := map[string][]attachment.Guarded{}
	for _, one := range all {
		if one.Back {
			w.Back()
			w.Log.Warn("put back the filter against datagrams that libktsn.so does not see", "pod", one.Identity, "interface", one.Interface)
		}
		of[one.Identity] = append(of[one.Identity], one)
	}
	return of
}

// captured tells whether relays serve all programs of a pod that are without libktsn.so.
func captured(interfaces []attachment.Guarded) bool {
	return len(interfaces) > 0 && !slices.ContainsFunc(interfaces, func(one attachment.Guarded) bool { return one.Mode == capture.None })
}

// unseenPart is how what is unseen is called where it cannot be looked at.
const unseenPart = "datagrams that libktsn.so does not see"

// dropped says which programs send past libktsn.so, each once. Where none is known it says that much.
func dropped(interfaces []attachment.Guarded) []finding {
	var found []finding
	for _, one := range interfaces {
		for _, program := range one.Programs {
			if program.Refused == 0 {
				continue
			}
			found = append(found, unseenOf(&one, fmt.Sprintf("program %q (process %d)", program.Name, program.PID), program.Name))
		}
		if one.RefusedSum() > 0 && len(one.Programs) == 0 {
			found = append(found, unseenOf(&one, "a program that could not be told", ""))
		}
	}
	return found
}

func unseenOf(one *attachment.Guarded, who, name string) finding {
	return finding{ReasonUnseen, one.Interface + " " + name, fmt.Sprintf("Messages with a transmit time of %s did not come through libktsn.so, and %s "+
		"does not let them out, because they would leave early: %s. %s", who, one.Interface, reasons(one), remedy(one))}
}

// reasons says why messages were not captured.
func reasons(one *attachment.Guarded) string {
	var texts []string
	for _, reason := range slices.Sorted(maps.Keys(one.Refused)) {
		texts = append(texts, capture.Explain(reason))
	}
	return strings.Join(texts, ", ")
}

// remedy says what to do about it.
func remedy(one *attachment.Guarded) string {
	if one.Refused[capture.ReasonNotCaptured] == 0 {
		return "`ktsn node capture` on the node has the figures"
	}
	return fmt.Sprintf("Have them captured (spec.capture: Timed of the network); or link the program dynamically and have it call sendmsg of the C "+
		"library as usual; or let them leave early by the annotation %s: %s", v1alpha1.UnseenAnnotation, v1alpha1.UnseenPass)
}

// resultRefused is what the pod's interface did not let out.
const resultRefused = "refused"

// count adds what was dropped or passed since the last look to the pod's figures.
func (w *Watcher) count(pod *corev1.Pod, interfaces []attachment.Guarded, now map[string]map[string]uint64) {
	for i := range interfaces {
		one := &interfaces[i]
		key := one.PortName()
		now[key] = resultsOf(one)
		for result, sum := range now[key] {
			before := w.counted[key][result]
			if sum < before {
				before = 0 // another filter
			}
			switch more := sum - before; {
			case more == 0:
			case result == resultRefused:
				w.Dropped(pod.Namespace, pod.Name, more)
			default:
				w.Diverted(pod.Namespace, pod.Name, result, more)
			}
		}
	}
}

// resultsOf counts what became of frames that no relay got.
func resultsOf(one *attachment.Guarded) map[string]uint64 {
	results := map[string]uint64{resultRefused: one.RefusedSum(), "passed": one.Port.Passed, "drop-gated": one.Port.Gated}
	for reason, frames := range one.Port.Dropped() {
		results["drop-"+reason] = frames
	}
	return results
}

// lost says of which interfaces captured messages were dropped before a relay got them.
func lost(interfaces []attachment.Guarded) []finding {
	var found []finding
	for i := range interfaces {
		one := &interfaces[i]
		dropped := one.Port.Dropped()
		for _, reason := range slices.Sorted(maps.Keys(dropped)) {
			found = append(found, finding{ReasonUnseen, one.Interface + " " + reason, fmt.Sprintf("%d messages with a transmit time were captured at %s "+
				"and dropped on the node, because %s; `ktsn doctor` says what to do", dropped[reason], one.Interface, capture.Explain(reason))})
		}
	}
	return found
}
