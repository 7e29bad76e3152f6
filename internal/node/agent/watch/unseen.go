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
	for _, guarded := range all {
		if guarded.Back {
			w.Back()
			w.Log.Warn("put back the filter against datagrams that libktsn.so does not see", "pod", guarded.Identity, "interface", guarded.Interface)
		}
		of[guarded.Identity] = append(of[guarded.Identity], guarded)
	}
	return of
}

// captured tells whether relays serve all programs of a pod that are without libktsn.so.
func captured(interfaces []attachment.Guarded) bool {
	return len(interfaces) > 0 && !slices.ContainsFunc(interfaces, func(guarded attachment.Guarded) bool { return guarded.Mode == capture.None })
}

// unseenPart is how what is unseen is called where it cannot be looked at.
const unseenPart = "datagrams that libktsn.so does not see"

// dropped says which programs send past libktsn.so, each once. Where none is known it says that much.
func dropped(interfaces []attachment.Guarded) []finding {
	var findings []finding
	for _, guarded := range interfaces {
		for _, program := range guarded.Programs {
			if program.Refused == 0 {
				continue
			}
			findings = append(findings, unseenOf(&guarded, fmt.Sprintf("program %q (process %d)", program.Name, program.PID), program.Name))
		}
		if guarded.RefusedSum() > 0 && len(guarded.Programs) == 0 {
			findings = append(findings, unseenOf(&guarded, "a program that could not be told", ""))
		}
	}
	return findings
}

func unseenOf(guarded *attachment.Guarded, who, name string) finding {
	return finding{ReasonUnseen, guarded.Interface + " " + name, fmt.Sprintf("Messages with a transmit time of %s did not come through libktsn.so, and %s "+
		"does not let them out, because they would leave early: %s. %s", who, guarded.Interface, reasons(guarded), remedy(guarded))}
}

// reasons says why messages were not captured.
func reasons(guarded *attachment.Guarded) string {
	var texts []string
	for _, reason := range slices.Sorted(maps.Keys(guarded.Refused)) {
		texts = append(texts, capture.Explain(reason))
	}
	return strings.Join(texts, ", ")
}

// remedy says what to do about it.
func remedy(guarded *attachment.Guarded) string {
	if guarded.Refused[capture.ReasonNotCaptured] == 0 {
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
		guarded := &interfaces[i]
		key := guarded.PortName()
		now[key] = resultsOf(guarded)
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
func resultsOf(guarded *attachment.Guarded) map[string]uint64 {
	results := map[string]uint64{resultRefused: guarded.RefusedSum(), "passed": guarded.Port.Passed, "drop-gated": guarded.Port.Gated}
	for reason, frames := range guarded.Port.Dropped() {
		results["drop-"+reason] = frames
	}
	return results
}

// lost says of which interfaces captured messages were dropped before a relay got them.
func lost(interfaces []attachment.Guarded) []finding {
	var findings []finding
	for i := range interfaces {
		guarded := &interfaces[i]
		dropped := guarded.Port.Dropped()
		for _, reason := range slices.Sorted(maps.Keys(dropped)) {
			findings = append(findings, finding{ReasonUnseen, guarded.Interface + " " + reason, fmt.Sprintf("%d messages with a transmit time were captured at %s "+
				"and dropped on the node, because %s; `ktsn doctor` says what to do", dropped[reason], guarded.Interface, capture.Explain(reason))})
		}
	}
	return findings
}
