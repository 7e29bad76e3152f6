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
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
)

// guarded restores and reads the filters of the pods' interfaces, by the pods' UIDs.
func (w *Watcher) guarded() map[string][]attachment.Guarded {
	if w.Guards == nil {
		return nil
	}
	all, err := w.Guards()
	w.logFailure(unseenPart, err)
	byPod := map[string][]attachment.Guarded{}
	for _, guarded := range all {
		if guarded.Back {
			w.Restored()
			w.Log.Warn("restored the filter against datagrams that bypass libktsn.so", "pod", guarded.Identity, "interface", guarded.Interface)
		}
		byPod[guarded.Identity] = append(byPod[guarded.Identity], guarded)
	}
	return byPod
}

// captured reports whether relays serve all programs of a pod that have not loaded libktsn.so.
func captured(interfaces []attachment.Guarded) bool {
	return len(interfaces) > 0 && !slices.ContainsFunc(interfaces, func(guarded attachment.Guarded) bool {
		return guarded.Mode == capture.None && !guarded.Other
	})
}

// unseenPart is the subject of failures to read the filters.
const unseenPart = "datagrams that bypass libktsn.so"

// droppedFindings has a finding for each program that bypasses libktsn.so, or for an unknown program.
func droppedFindings(interfaces []attachment.Guarded) []finding {
	var findings []finding
	for _, guarded := range interfaces {
		for _, program := range guarded.Programs {
			if program.Refused == 0 {
				continue
			}
			findings = append(findings, unseenFinding(&guarded, fmt.Sprintf("program %q (process %d)", program.Name, program.PID), program.Name))
		}
		if guarded.RefusedSum() > 0 && len(guarded.Programs) == 0 {
			findings = append(findings, unseenFinding(&guarded, "an unknown program", ""))
		}
	}
	return findings
}

func unseenFinding(guarded *attachment.Guarded, who, name string) finding {
	if guarded.Other {
		return finding{ReasonUnseen, guarded.Interface + " " + name, fmt.Sprintf("Messages with a transmit time of %s were dropped at %s, because it is not on a "+
			"network and they would leave early. Send them to addresses on the pod's networks, or let them leave early by the annotation %s: %s",
			who, guarded.Interface, v1alpha1.OffNetworkAnnotation, v1alpha1.OffNetworkPass)}
	}
	return finding{ReasonUnseen, guarded.Interface + " " + name, fmt.Sprintf("Messages with a transmit time of %s did not come through libktsn.so, and %s "+
		"does not let them out, because they would leave early: %s. %s", who, guarded.Interface, reasons(guarded), remedy(guarded))}
}

// reasons explains why messages were not captured.
func reasons(guarded *attachment.Guarded) string {
	var texts []string
	for _, reason := range slices.Sorted(maps.Keys(guarded.Refused)) {
		texts = append(texts, capture.Explain(reason))
	}
	return strings.Join(texts, ", ")
}

// remedy says how to fix it.
func remedy(guarded *attachment.Guarded) string {
	if guarded.Refused[capture.ReasonNotCaptured] == 0 {
		return "`ktsn node capture` on the node has the figures"
	}
	return fmt.Sprintf("Have them captured (spec.capture: Timed of the network); or link the program dynamically and have it call sendmsg of the C "+
		"library as usual; or let them leave early by the annotation %s: %s", v1alpha1.UnseenAnnotation, v1alpha1.UnseenPass)
}

// resultRefused counts messages that the filter of the pod's interface dropped.
const resultRefused = "refused"

// count adds the increase since the last check to the pod's metrics.
func (w *Watcher) count(pod *corev1.Pod, interfaces []attachment.Guarded, now map[string]map[string]uint64) {
	for i := range interfaces {
		guarded := &interfaces[i]
		key := guarded.PortName()
		now[key] = resultsOf(guarded)
		for result, sum := range now[key] {
			before := w.counted[key][result]
			if sum < before {
				before = 0 // new filter
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

// resultsOf returns the counters of frames that no relay got.
func resultsOf(guarded *attachment.Guarded) map[string]uint64 {
	results := map[string]uint64{resultRefused: guarded.RefusedSum(), "passed": guarded.Port.Passed, "drop-gated": guarded.Port.Gated}
	for reason, frames := range guarded.Port.Dropped() {
		results["drop-"+reason] = frames
	}
	return results
}

// lostFindings has a finding for each interface whose captured messages were dropped before a relay got them.
func lostFindings(interfaces []attachment.Guarded) []finding {
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

// relays returns the status of relays by the pods' UIDs.
func (w *Watcher) relays() map[string][]relay.Status {
	if w.Relays == nil {
		return nil
	}
	byPod := map[string][]relay.Status{}
	for _, status := range w.Relays() {
		byPod[status.Identity] = append(byPod[status.Identity], status)
	}
	return byPod
}

// relayFindings has a finding for each interface whose captured frames do not pass ktsnd.
func relayFindings(relays []relay.Status) []finding {
	var findings []finding
	for i := range relays {
		reason, message := relays[i].Trouble()
		if reason == "" {
			continue
		}
		event := ReasonRelay
		if reason == v1alpha1.ReasonKernelPath {
			event = ReasonKernelPath
		}
		findings = append(findings, finding{event, relays[i].Interface + reason, strings.ToUpper(message[:1]) + message[1:]})
	}
	return findings
}
