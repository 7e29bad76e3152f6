// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// rings reports whether datagrams arrive in receive rings of a pod that requests them.
func (d *Doctor) rings(pod *corev1.Pod, networks []v1alpha1.TSNNetwork, known *controlPod) {
	if pod.Annotations[v1alpha1.ReceiveAnnotation] != v1alpha1.ReceiveRing {
		return
	}
	const about = "receive rings"
	offered := false
	for i := range networks {
		receive := networks[i].Spec.Receive
		if receive != nil && receive.Rings == v1alpha1.RingsAllowed {
			offered = true
			continue
		}
		d.report(Note, about, "set spec.receive.rings of the TSNNetwork to "+v1alpha1.RingsAllowed+" and recreate the pod, or remove the annotation "+
			v1alpha1.ReceiveAnnotation, "network %s does not offer any, so the kernel serves what comes on it", networks[i].Name)
	}
	switch {
	case !offered:
	case known.Receive.Dropped > 0:
		d.report(Note, about, "enlarge SO_RCVBUF, from which the size of a ring comes, or read faster",
			"sockets with one: %d; %d datagrams came into them, and %d were dropped because a ring was full", known.Receive.Sockets, known.Receive.Received,
			known.Receive.Dropped)
	case known.Receive.Refused > 0:
		d.report(Note, about, "docs/reference/receiving.md lists what a socket must be, and docs/internals/filter-and-receive.md what the node needs; `ktsn node receive list` on the node shows its program",
			"sockets with one: %d; %d stayed with the kernel, the last of them because %s", known.Receive.Sockets, known.Receive.Refused, known.Receive.Reason)
	case known.Receive.Sockets == 0 && known.Receive.Received == 0:
		d.report(Note, about, "a socket gets its ring when it is first read or waited for; static programs, Go programs and those that are set-uid stay with the kernel",
			"no socket of the pod has requested one")
	default:
		d.ok(about, "sockets with one: %d; %d datagrams came into them", known.Receive.Sockets, known.Receive.Received)
	}
}
