// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// pastLibrary reports whether programs of the pod bypass libktsn.so, and the outcome of their messages.
func (d *Doctor) pastLibrary(ctx context.Context, pod *corev1.Pod) {
	all, err := d.AskCapture(ctx, pod.Spec.NodeName)
	if err != nil {
		d.unreadable("libktsn.so", err)
		return
	}
	for i := range all {
		if all[i].Identity != string(pod.UID) {
			continue
		}
		d.machineAt(pod, &all[i])
		switch all[i].Device {
		case v1alpha1.DeviceVhostUser:
			continue // all of it goes through its relay, of which Events and metrics speak
		case device.Veth:
			d.capturedOf(&all[i])
			continue
		}
		d.pastLibraryAt(pod, &all[i])
		d.relayOf(&all[i])
	}
}

// machineAt reports how a virtual machine in the pod is connected to the interface.
func (d *Doctor) machineAt(pod *corev1.Pod, at *capture.At) {
	about := "virtual machine at " + at.Interface
	wanted := pod.Annotations[v1alpha1.DeviceAnnotation]
	switch {
	case wanted == at.Device && wanted != "":
		d.ok(about, "is connected by %s", wanted)
	case wanted != "":
		d.report(Bad, about, makeAnew, "should be connected by %s, and is not: the annotation %s was added after the pod was created, or the connection was removed",
			wanted, v1alpha1.DeviceAnnotation)
	}
}

// capturedOf reports the outcome of frames of a machine that has the interface itself: they are captured only at the node's end.
func (d *Doctor) capturedOf(at *capture.At) {
	about := "frames of " + at.Interface
	switch {
	case at.Failure != "":
		d.report(Note, about, "", "cannot be read: %s", at.Failure)
	case !at.Node.Attached:
		d.report(Bad, about, "have them captured (spec.capture: Timed of the TSNNetwork) and recreate the pod", "nothing captures frames of the machine, so those with a "+
			"transmit time do not reach ktsnd")
	case !at.Node.HasRelay():
		d.report(Bad, about, "see the log of ktsn-agent on the node", "their relay is away, so those with a transmit time are dropped: %d so far", at.Node.NoRelay)
	case len(at.Dropped()) > 0:
		d.report(Note, about, remedy(at), "%s; %d reached ktsnd", droppedText(at.Dropped()), at.Node.Timed)
	default:
		d.ok(about, "%d with a transmit time and %d others went to ktsnd", at.Node.Timed, at.Node.Untimed)
	}
}

func (d *Doctor) pastLibraryAt(pod *corev1.Pod, at *capture.At) {
	about := "libktsn.so at " + at.Interface
	switch {
	case at.Failure != "":
		d.report(Note, about, "", "cannot be read: %s", at.Failure)
	case !at.Attached && pod.Annotations[v1alpha1.UnseenAnnotation] == v1alpha1.UnseenPass:
		d.report(Note, about, "", "messages that pass it by leave at once, early, because the annotation %s says so", v1alpha1.UnseenAnnotation)
	case !at.Attached:
		d.report(Bad, about, "the agent puts it back within seconds, unless the attachment says \"unseen\": \"pass\"; else its log says why",
			"the interface has no filter, so messages that pass the library by leave at once, early")
	case len(at.Dropped()) > 0:
		d.report(Bad, about, remedy(at), "%s; messages past the library were sent by %s", droppedText(at.Dropped()), senders(at.Programs))
	case at.Captured > 0:
		d.ok(about, "%d messages with a transmit time passed it by and were captured; they were sent by %s", at.Captured, senders(at.Programs))
	default:
		d.ok(about, "no message with a transmit time passed it by")
	}
}

// relayOf reports whether captured frames go through ktsnd.
func (d *Doctor) relayOf(at *capture.At) {
	about := "relay of " + at.Interface
	switch {
	case at.Failure != "" || !at.Attached || at.Mode == capture.None:
		return
	case at.Mode == capture.Timed && !at.Node.HasRelay():
		d.report(Note, about, "see the log of ktsn-agent on the node, and that the pod has the volume of csi.kubernetsn.io",
			"is away, so messages that pass libktsn.so by are dropped")
	case at.Mode == capture.Timed:
		d.ok(about, "has a device, where messages that pass libktsn.so by wait for it")
	case !at.Node.Answers():
		d.report(Bad, about, "see the logs of ktsn-agent and ktsnd on the node",
			"does not answer, so frames without a transmit time leave by the kernel's bridge, or are dropped if the schedule closes their gate at times")
	default:
		d.ok(about, "answers; %d frames without a transmit time were given to the relay, %d left by the kernel's bridge, and %d were dropped before the relay, because there was none or too many waited",
			at.Node.Untimed, at.Node.Passed, at.Node.Gated)
	}
}

func droppedText(dropped map[string]uint64) string {
	var texts []string
	for _, reason := range slices.Sorted(maps.Keys(dropped)) {
		texts = append(texts, fmt.Sprintf("%d messages with a transmit time were dropped because %s", dropped[reason], capture.Explain(reason)))
	}
	return strings.Join(texts, "; ")
}

// remedy returns the remedy for the first of the reasons for drops.
func remedy(at *capture.At) string {
	dropped := at.Dropped()
	switch {
	case dropped[capture.ReasonNotCaptured] > 0:
		return "have them captured (spec.capture: Timed of the TSNNetwork); or link the program dynamically and have it call sendmsg of the C library as usual; " +
			"or let such messages leave early by the annotation " + v1alpha1.UnseenAnnotation + ": " + v1alpha1.UnseenPass + " and recreate the pod"
	case dropped[capture.ReasonNoRelay] > 0:
		return "see the log of ktsn-agent on the node; messages that were dropped before the relay ran stay counted"
	case dropped[capture.ReasonSegments] > 0:
		return "turn the pod's interface back: ethtool -K " + at.Interface + " tx-udp-segmentation off; or send segments without a transmit time"
	}
	return "ktsn node capture on the node has the figures"
}

func senders(programs []capture.Program) string {
	if len(programs) == 0 {
		return "an unknown program"
	}
	var names []string
	for _, program := range programs {
		names = append(names, fmt.Sprintf("program %q (%d, process %d of the node)", program.Name, program.Captured+program.Refused, program.PID))
	}
	return strings.Join(names, ", ")
}
