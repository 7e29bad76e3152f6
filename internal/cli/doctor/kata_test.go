// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/machine"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// inKata is a world whose pod is one of Kata, and in which all is well.
func inKata() *world {
	w := well()
	class := "kata"
	w.handler = "kata-qemu"
	w.pod.Spec.RuntimeClassName = &class
	w.pod.Spec.Volumes = nil
	w.pod.Spec.InitContainers = []corev1.Container{{Name: "ktsn-guest", Command: []string{"/usr/bin/ktsn-guest", "run", "--interface", "tsn0"}}}
	w.pod.Spec.InitContainers[0].Args = []string{"--tai-offset", "0"}
	w.pod.Annotations[v1alpha1.DeviceAnnotation] = device.Veth
	w.pod.Annotations[attachedTo] = `[{"cni-args":{"device":"veth","device-class":"record","device-owner":0,"device-queues":1},"interface":"tsn0","name":"tsn"}]`
	w.ktsnd.Pods[0].Processes, w.ktsnd.Pods[0].RelayConnections = 0, 1
	w.ktsnd.Devices = []machine.Machine{{Identity: "u1", Interface: "tsn0", Device: device.Veth, Connection: "the interface itself, which Kata has taken by tap0_kata"}}
	w.captured[0] = capture.At{Identity: "u1", Interface: "tsn0", Device: device.Veth, Node: capture.PortCount{Attached: true, Mode: capture.Timed, RelayIfindex: 4, Timed: 9}}
	w.guest = map[string]string{
		"kernel": "the kernel has all options for held\n",
		"status": `[{"interface":"tsn0","known":true,"bound_ns":20000,"sent":9}]`,
	}
	return w
}

func TestNoFindingsOfKataWithoutFaults(t *testing.T) {
	findings := inKata().look(t, "pod")
	for _, finding := range findings {
		if finding.Level != OK {
			t.Errorf("%+v", finding)
		}
	}
	for _, sentence := range []string{
		"RuntimeClass kata, handler kata-qemu: Kata, whose machine has the pod's interfaces", "the machine has at least 1 (Kata's default)",
		"has added the attachment, for a virtual machine of Kata by veth", "is the interface itself, which Kata has taken by tap0_kata",
		"serves the pod's machine by its relay", "9 with a transmit time and 0 others went to ktsnd", "the kernel has all options for held",
		"the host's time is known within 20µs, and 9 frames left with their transmit time",
	} {
		if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Text == sentence }) {
			t.Errorf("it does not say %q: %+v", sentence, findings)
		}
	}
}

// card has the pod have a network card.
func (w *world) card() {
	w.pod.Annotations[v1alpha1.DeviceAnnotation] = v1alpha1.DeviceVFIO
	w.pod.Annotations[attachedTo] = `[{"cni-args":{"device":"vfio","device-dan":"/run/kata-containers/dans"},"interface":"tsn0","name":"tsn"}]`
	w.ktsnd.Pods, w.captured = nil, nil
	w.ktsnd.Devices = []machine.Machine{{Identity: "u1", Interface: "tsn0", Device: device.VFIO, Connection: "network card 0000:02:00.0"}}
}

func TestPodWithCard(t *testing.T) {
	w := inKata()
	w.card()
	reported := false
	for _, finding := range w.look(t, "pod") {
		if finding.Level != OK {
			t.Errorf("%+v", finding)
		}
		reported = reported || finding.Text == "is network card 0000:02:00.0"
	}
	if !reported {
		t.Error("it does not name the card")
	}
}

func TestGuestOutputWithoutControlCharacters(t *testing.T) {
	const hostile = "tsn0\x1b]0;mine\x07\n"
	w := inKata()
	w.guest["status"] = `[{"interface":"tsn0\u001b]0;mine\u0007\n","known":true}]`
	w.ktsnd.Devices[0].Interface = hostile
	w.ktsnd.Devices[0].Faults = []machine.Fault{{Text: hostile, Mend: hostile}}
	w.captured[0].Interface = hostile
	w.guest["kernel"] = hostile
	for _, finding := range w.look(t, "pod") {
		if text := finding.About + finding.Text + finding.Mend; strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("it writes %q", finding)
		}
	}
}

func TestFindingsOfKataPods(t *testing.T) {
	for name, test := range map[string]struct {
		spoil    func(w *world)
		level    Level
		sentence string
	}{
		"no such class": {func(w *world) { w.handler = "" }, Bad, "there is no RuntimeClass kata"},
		"a handler that the node does not have": {func(w *world) {
			w.events = []corev1.Event{{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default"}, Type: corev1.EventTypeWarning, Reason: "FailedCreatePodSandBox",
				InvolvedObject: corev1.ObjectReference{UID: w.pod.UID},
				Message:        `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "kata-qemu" is configured`}}
		}, Bad, `no runtime for "kata-qemu" is configured`},
		"a handler that the chart does not name": {func(w *world) {
			delete(w.pod.Annotations, v1alpha1.DeviceAnnotation)
			w.pod.Annotations[attachedTo] = "tsn@tsn0"
		}, Bad, "has handler kata-qemu, which seems to be Kata's and is not in kata.handlers of the chart"},
		"one processor": {func(w *world) { w.pod.Annotations[v1alpha1.DeviceQueuesAnnotation] = "2" }, Bad, "the machine has one (Kata's default) and 2 queues"},
		"a number of processors that is none": {func(w *world) {
			w.pod.Annotations["io.katacontainers.config.hypervisor.default_vcpus"] = "many"
		}, Bad, `is "many"; give a number of processors`},
		"nothing that takes the interface": {func(w *world) {
			w.ktsnd.Devices[0].Faults = []machine.Fault{{Text: "nothing has taken tsn0 for a machine", Mend: "see to it"}}
		}, Bad, "nothing has taken tsn0 for a machine"},
		"no relay in ktsnd":                        {func(w *world) { w.ktsnd.Pods[0].RelayConnections = 0 }, Bad, "no relay serves the pod's machine"},
		"nothing that captures":                    {func(w *world) { w.captured[0].Node = capture.PortCount{} }, Bad, "nothing captures frames of the machine"},
		"a relay that is away":                     {func(w *world) { w.captured[0].Node.RelayIfindex, w.captured[0].Node.NoRelay = 0, 3 }, Bad, "are dropped: 3 so far"},
		"frames that came too early for the relay": {func(w *world) { w.captured[0].Node.NoRelay = 3 }, Note, "3 messages with a transmit time were dropped"},
		"nobody in the machine":                    {func(w *world) { w.pod.Spec.InitContainers = nil }, Note, "no container of the pod runs ktsn-guest"},
		"options that its kernel lacks": {func(w *world) {
			w.guest["kernel"], w.errGuest = "CONFIG_NET_SCH_INGRESS is not set, which is for: held\nCONFIG_BPF is not set, which is for: held\n", errors.New("status 1")
		}, Bad, "CONFIG_NET_SCH_INGRESS is not set, which is for: held; CONFIG_BPF is not set, which is for: held"},
		"a host that does not tell its time": {func(w *world) {
			w.guest["status"] = `[{"interface":"tsn0","known":false,"refused":{"unsure":4}}]`
		}, Bad, "the host's time is not known in the machine, so frames with a transmit time are dropped there: 4 so far"},
		"frames before it did": {func(w *world) {
			w.guest["status"] = `[{"interface":"tsn0","known":true,"bound_ns":1000,"sent":7,"refused":{"unsure":4}}]`
		}, Note, "4 frames with a transmit time were dropped, and 7 left"},
		"a host that is asked about another interface": {func(w *world) {
			w.guest["status"] = `[{"interface":"tsn7","known":true}]`
		}, Note, "ktsn-guest does not report this interface"},
		"another CLOCK_TAI than the node's": {func(w *world) {
			w.ktsnd.Status.Clock.TAIOffsetS = 37
			w.pod.Spec.InitContainers[0].Args = []string{"--tai-offset", "36"}
		}, Bad, "ktsn-guest has --tai-offset 36, and on node a CLOCK_TAI is 37 s ahead"},
		"a CLOCK_TAI that the node does not have": {func(w *world) {
			w.pod.Spec.InitContainers[0].Args = []string{"--tai-offset=37"}
		}, Bad, "ktsn-guest has --tai-offset 37, and on node a CLOCK_TAI is 0 s ahead"},
		"a clock that its kernel lacks": {func(w *world) {
			w.guest["kernel check --for clock"] = "CONFIG_PTP_1588_CLOCK_KVM is not set, which is for: ptp_kvm\n"
		}, Note, "CONFIG_PTP_1588_CLOCK_KVM is not set"},
		"a card that is not the pod's": {func(w *world) { w.card(); w.ktsnd = State{} }, Bad, "no network card of node a is the pod's for network tsn"},
		"one card of two": {func(w *world) {
			w.card()
			w.pod.Annotations[v1alpha1.NetworkAnnotation] = "tsn,other"
		}, Bad, "no network card of node a is the pod's for network other"},
		"a card without a driver in the machine": {func(w *world) {
			w.card()
			w.guest["kernel check --for card,clock"] = "CONFIG_IGB is not set, which is for: I210\n"
		}, Note, "CONFIG_IGB is not set"},
		"a machine into which nobody sees": {func(w *world) { w.errGuest = errors.New("refused") }, Note, "cannot be read: refused"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inKata()
			test.spoil(w)
			findings := w.look(t, "pod")
			at := slices.IndexFunc(findings, func(f Finding) bool { return f.Level == test.level && strings.Contains(f.Text, test.sentence) })
			if at < 0 {
				t.Fatalf("found %+v, want %s: %s", findings, test.level, test.sentence)
			}
			if test.level == Bad && findings[at].Mend == "" {
				t.Errorf("it does not say what to do: %+v", findings[at])
			}
		})
	}
}
