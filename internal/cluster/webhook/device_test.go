// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"strings"
	"testing"

	nettypes "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
)

// launched is a pod as KubeVirt makes it.
func launched(annotations string) string {
	return strings.Replace(annotated(annotations, "containers: [{name: compute}]"), "metadata: {", "metadata: {labels: {kubevirt.io: virt-launcher}, ", 1)
}

// byKubeVirt is the attachment that it adds.
const byKubeVirt = networksKey + `'[{"name":"tsn","namespace":"ns","mac":"02:00:00:00:00:01","interface":"pod16477688c0e"}]'`

func TestDeviceOf(t *testing.T) {
	for name, test := range map[string]struct{ pod, attachments string }{
		"a tap": {annotated(", kubernetsn.io/device: tap", appContainer),
			`[{"cni-args":{"device":"tap","device-class":"record","device-owner":0,"device-queues":1},"interface":"tsn0","name":"tsn"}]`},
		"all of it": {annotated(", kubernetsn.io/device: vhost-user, kubernetsn.io/device-queues: '4', kubernetsn.io/device-class: queue, kubernetsn.io/device-owner: '1000'", appContainer),
			`[{"cni-args":{"device":"vhost-user","device-class":"queue","device-owner":1000,"device-queues":4},"interface":"tsn0","name":"tsn"}]`},
		"one of KubeVirt": {launched(byKubeVirt),
			`[{"cni-args":{"device":"tap","device-class":"record","device-owner":107,"device-queues":1},"interface":"pod16477688c0e","mac":"02:00:00:00:00:01","name":"tsn","namespace":"ns"}]`},
		"one of KubeVirt that asks for another device": {launched(", kubernetsn.io/device: vhost-user, kubernetsn.io/device-queues: '2'" + byKubeVirt),
			`[{"cni-args":{"device":"vhost-user","device-class":"record","device-owner":107,"device-queues":2},"interface":"pod16477688c0e","mac":"02:00:00:00:00:01","name":"tsn","namespace":"ns"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			pod := parsePod(t, test.pod)
			for range 2 { // it may come twice
				must(t, mutate(pod, "ns", []string{"tsn"}, ""))
				if got := pod.Annotations[nettypes.NetworkAttachmentAnnot]; got != test.attachments {
					t.Fatalf("got  %s\nwant %s", got, test.attachments)
				}
			}
			container := &pod.Spec.Containers[0]
			if len(container.Env) > 0 || len(container.VolumeMounts) != 1 || container.VolumeMounts[0].MountPath != "/run/ktsn" {
				t.Errorf("the container is %s", asText(t, container))
			}
			if pod.Annotations["kubernetsn.io/device"] == "" {
				t.Error("the pod does not say that it has a device")
			}
		})
	}
}

func TestDeviceOfInvalid(t *testing.T) {
	for name, test := range map[string]struct{ pod, sentence string }{
		"another device":       {annotated(", kubernetsn.io/device: macvtap", appContainer), `annotation kubernetsn.io/device is "macvtap"; give tap, vhost-user, veth or vfio`},
		"too many queues":      {annotated(", kubernetsn.io/device: tap, kubernetsn.io/device-queues: '9'", appContainer), `annotation kubernetsn.io/device-queues is "9"; give a number from 1 to 8`},
		"another class":        {annotated(", kubernetsn.io/device: tap, kubernetsn.io/device-class: dscp", appContainer), `annotation kubernetsn.io/device-class is "dscp"; give one of record, pcp, queue`},
		"an owner by name":     {annotated(", kubernetsn.io/device: tap, kubernetsn.io/device-owner: qemu", appContainer), `annotation kubernetsn.io/device-owner is "qemu"; give a number`},
		"queues of no device":  {annotated(", kubernetsn.io/device-queues: '2'", appContainer), `annotation kubernetsn.io/device-queues is "2", and there is no device`},
		"receive rings":        {annotated(", kubernetsn.io/device: tap, kubernetsn.io/receive: ring", appContainer), "annotation kubernetsn.io/receive is for programs of the pod, and a virtual machine has its interfaces (kubernetsn.io/device: tap); remove it"},
		"what is unseen of it": {launched(", kubernetsn.io/unseen: pass"), "annotation kubernetsn.io/unseen is for programs of the pod"},
		"another device by hand": {launched(", kubernetsn.io/device: vhost-user" + networksKey + `'[{"name": "tsn", "cni-args": {"device": "tap"}}]'`),
			`gives the attachment tsn the argument "device": "tap", and by annotation kubernetsn.io/device it is "vhost-user"; remove one of the two`},
		"a machine that moves": {strings.Replace(launched(byKubeVirt), "kubevirt.io: virt-launcher", "kubevirt.io: virt-launcher, kubevirt.io/migrationJobUID: 8b1c", 1),
			"a virtual machine on a network cannot migrate while it runs: its transmit times and its relay are those of the node on which it is; stop it and start it on the other node"},
	} {
		t.Run(name, func(t *testing.T) {
			err := mutate(parsePod(t, test.pod), "ns", []string{"tsn"}, "")
			if err == nil || !strings.Contains(err.Error(), test.sentence) {
				t.Errorf("got %v, want %q", err, test.sentence)
			}
		})
	}
}
