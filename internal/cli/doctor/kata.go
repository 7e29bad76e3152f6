// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cli/clusterreader"
	"github.com/kubernetsn/kubernetsn/internal/guest/kernelconfig"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// isOfKata reports whether the webhook treated the pod as one of Kata.
func isOfKata(pod *corev1.Pod) bool {
	return pod.Annotations[v1alpha1.DeviceAnnotation] == device.Veth || strings.Contains(pod.Annotations[attachedTo], strconv.Quote(device.DANName))
}

// kata reports whether the pod's runtime is Kata, and whether its machine meets the pod's requirements.
func (d *Doctor) kata(ctx context.Context, pod *corev1.Pod) {
	const about = "runtime"
	name := pod.Spec.RuntimeClassName
	if name == nil {
		return
	}
	var class nodev1.RuntimeClass
	err := d.Cluster.Get(ctx, clusterreader.Runtimes, "", *name, &class)
	known := isOfKata(pod)
	switch {
	case apierrors.IsNotFound(err):
		d.report(Bad, about, "`kubectl get runtimeclasses` lists those that there are", "there is no RuntimeClass %s", *name)
	case err != nil:
		d.unreadable(about, err)
	case known:
		d.ok(about, "RuntimeClass %s, handler %s: Kata, whose machine has the pod's interfaces", *name, class.Handler)
	case strings.HasPrefix(class.Handler, tsnnetwork.KataHandlers):
		d.report(Bad, about, "name the handler there, with where it looks for network devices (docs/guide/virtual-machines.md), and recreate the pod",
			"RuntimeClass %s has handler %s, which seems to be Kata's and is not in kata.handlers of the chart: the pod was attached as one whose programs run "+
				"on the node", *name, class.Handler)
	}
	if known {
		d.processors(pod)
	}
}

const noRuntimeMend = "configure the handler of the pod's RuntimeClass in the container runtime of the node (docs/guide/virtual-machines.md), or keep pods of the class on nodes " +
	"that have it by scheduling.nodeSelector of the RuntimeClass"

// isOfNoRuntime reports whether an Event says that a node's container runtime does not know the handler of the pod's RuntimeClass. The
// first message is containerd's, the second CRI-O's. Waiting does not help.
func isOfNoRuntime(event *corev1.Event) bool {
	return event.Reason == "FailedCreatePodSandBox" &&
		(strings.Contains(event.Message, "no runtime for") || strings.Contains(event.Message, "failed to find runtime handler"))
}

// processors checks that queues have processors to serve them.
func (d *Doctor) processors(pod *corev1.Pod) {
	const about = "processors"
	count, because, err := tsnnetwork.ProcessorsOf(pod)
	queues := pod.Annotations[v1alpha1.DeviceQueuesAnnotation]
	switch {
	case err != nil:
		d.report(Bad, about, "correct it in the template of what makes the pod", "%s", err.Error())
	case count < 2 && queues != "" && queues != "1":
		d.report(Bad, about, "give it two or more by annotation "+tsnnetwork.ProcessorsAnnotation+" or by limits of cpu, or one queue",
			"the machine has one (%s) and %s queues: a queue waits while another is served", because, queues)
	default:
		d.ok(about, "the machine has at least %d (%s)", count, because)
	}
}

// cards checks that the pod's machine has a network card for each network, and drivers for it.
func (d *Doctor) cards(ctx context.Context, pod *corev1.Pod, networks []string) {
	const about = "card"
	state, err := d.AskKtsnd(ctx, pod.Spec.NodeName)
	if err != nil {
		d.unreadable(about, err)
		return
	}
	there := d.machines(pod, state)
	for i, network := range networks {
		if name := tsnnetwork.InterfaceOf(i); !slices.Contains(there, name) {
			d.report(Bad, about+" "+name, makeAnew+"; its Events say why no card could be given", "no network card of node %s is the pod's for network %s",
				pod.Spec.NodeName, network)
		}
	}
	if container := guestContainer(pod); container != "" {
		d.guestKernel(ctx, pod, container, Note, kernelconfig.Card, kernelconfig.Clock)
	}
}

// machines reports how machines are connected to the pod's interfaces, and returns the names of these interfaces.
func (d *Doctor) machines(pod *corev1.Pod, state *State) (interfaces []string) {
	for i := range state.Devices {
		machine := &state.Devices[i]
		if machine.Identity != string(pod.UID) {
			continue
		}
		interfaces = append(interfaces, machine.Interface)
		about := "device of " + machine.Interface
		if len(machine.Faults) == 0 {
			d.ok(about, "is %s", machine.Connection)
		}
		for _, fault := range machine.Faults {
			d.report(Bad, about, fault.Mend, "%s", fault.Text)
		}
	}
	return interfaces
}
