// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/unseen"
)

// pastLibrary says whether programs of the pod send past libktsn.so.
func (d *Doctor) pastLibrary(ctx context.Context, pod *corev1.Pod) {
	all, err := d.AskUnseen(ctx, pod.Spec.NodeName)
	if err != nil {
		d.unseen("libktsn.so", err)
		return
	}
	for i := range all {
		if all[i].Identity == string(pod.UID) {
			d.pastLibraryAt(pod, &all[i])
		}
	}
}

func (d *Doctor) pastLibraryAt(pod *corev1.Pod, at *unseen.At) {
	about := "libktsn.so at " + at.Interface
	switch {
	case at.Failure != "":
		d.say(Note, about, "", "could not be looked at: %s", at.Failure)
	case !at.Guarded && pod.Annotations[v1alpha1.UnseenAnnotation] == v1alpha1.UnseenPass:
		d.say(Note, about, "", "messages that pass it by leave at once, early, because the annotation %s says so", v1alpha1.UnseenAnnotation)
	case !at.Guarded:
		d.say(Bad, about, "the agent puts it back within seconds, unless the attachment says \"unseen\": \"pass\"; else its log says why",
			"the interface has no filter, so messages that pass the library by leave at once, early")
	case at.Datagrams > 0:
		d.say(Bad, about, "link the program dynamically and have it call sendmsg of the C library as usual; or let such messages leave early by the annotation "+
			v1alpha1.UnseenAnnotation+": "+v1alpha1.UnseenPass+" and make the pod anew",
			"%d messages with a transmit time passed it by and were not let out, because they would have left early; they were sent by %s",
			at.Datagrams, senders(at.Programs))
	default:
		d.ok(about, "no message with a transmit time passed it by")
	}
}

func senders(programs []unseen.Program) string {
	if len(programs) == 0 {
		return "a program that could not be told"
	}
	var names []string
	for _, program := range programs {
		names = append(names, fmt.Sprintf("program %q (%d, process %d of the node)", program.Name, program.Datagrams, program.PID))
	}
	return strings.Join(names, ", ")
}
