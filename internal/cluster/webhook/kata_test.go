// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"strings"
	"testing"

	nettypes "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

const (
	dans    = "/run/kata-containers/dans"
	inKata  = "runtimeClassName: kata, " + one
	danArgs = `"device-dan":"/run/kata-containers/dans",`
)

func TestAPodOfKataHasAnInterfaceForItsMachine(t *testing.T) {
	for name, test := range map[string]struct{ pod, kata, attachments string }{
		"in the network namespace": {annotated("", inKata), "veth",
			`[{"cni-args":{"device":"veth","device-class":"record","device-owner":0,"device-queues":1},"interface":"tsn0","name":"tsn"}]`},
		"by the class of tags": {annotated(", kubernetsn.io/device-class: pcp", inKata), "veth",
			`[{"cni-args":{"device":"veth","device-class":"pcp","device-owner":0,"device-queues":1},"interface":"tsn0","name":"tsn"}]`},
		"directly attached": {annotated("", inKata), dans,
			`[{"cni-args":{"device":"tap","device-class":"record",` + danArgs + `"device-owner":0,"device-queues":1},"interface":"tsn0","name":"tsn"}]`},
		"directly attached by vhost-user": {annotated(", kubernetsn.io/device: vhost-user, kubernetsn.io/device-queues: '2'", inKata), dans,
			`[{"cni-args":{"device":"vhost-user","device-class":"record",` + danArgs + `"device-owner":0,"device-queues":2},"interface":"tsn0","name":"tsn"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			pod := parsePod(t, test.pod)
			for range 2 { // it may come twice
				if err := mutate(pod, "ns", []string{"tsn"}, test.kata); err != nil {
					t.Fatal(err)
				}
				if got := pod.Annotations[nettypes.NetworkAttachmentAnnot]; got != test.attachments {
					t.Fatalf("got  %s\nwant %s", got, test.attachments)
				}
			}
			if container := &pod.Spec.Containers[0]; len(container.Env) > 0 || len(container.VolumeMounts) > 0 || len(pod.Spec.Volumes) > 0 {
				t.Errorf("the container is %s, with volumes %v", asText(t, container), pod.Spec.Volumes)
			}
			if pod.Labels[v1alpha1.PodLabel] != v1alpha1.LabelValue {
				t.Errorf("the pod has the labels %v", pod.Labels)
			}
		})
	}
}

func TestAPodOfKataThatCannotBeConnectedIsRefused(t *testing.T) {
	for name, test := range map[string]struct{ pod, kata, sentence string }{
		"a tap where Kata makes its own": {annotated(", kubernetsn.io/device: tap", inKata), "veth",
			`annotation kubernetsn.io/device is "tap", and the runtime of the pod, Kata, takes the interface itself (veth); remove the annotation`},
		"a veth that Kata does not see": {annotated(", kubernetsn.io/device: veth", inKata), dans,
			`annotation kubernetsn.io/device is "veth", and the runtime of the pod, Kata, does not look into the network namespace; give tap or vhost-user`},
		"classes by a queue that nobody sees": {annotated(", kubernetsn.io/device-class: queue, kubernetsn.io/device-queues: '2'", inKata), "veth",
			"annotation kubernetsn.io/device-class is queue, and of a veth nobody sees by which queue a frame left the machine"},
		"several queues of one processor": {annotated(", kubernetsn.io/device-queues: '2', io.katacontainers.config.hypervisor.default_vcpus: '1'", inKata), dans,
			`annotation kubernetsn.io/device-queues is "2", and the pod's machine has one processor`},
	} {
		t.Run(name, func(t *testing.T) {
			err := mutate(parsePod(t, test.pod), "ns", []string{"tsn"}, test.kata)
			if err == nil || !strings.Contains(err.Error(), test.sentence) {
				t.Errorf("got %v, want %q", err, test.sentence)
			}
		})
	}
}

// classes is an API server that has RuntimeClasses, by name.
type classes map[string]string

func (c classes) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	handler, there := c[key.Name]
	if !there {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "runtimeclasses"}, key.Name)
	}
	into.(*nodev1.RuntimeClass).Handler = handler
	return nil
}

func (c classes) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func TestTheHandlerOfAPodsRuntimeClassCounts(t *testing.T) {
	server := classes{"kata": "kata-qemu", "gvisor": "runsc"}
	h := &Handler{Cached: classes{}, Live: server, Kata: Kata{"kata-qemu": "veth"}}
	for name, test := range map[string]struct{ spec, want, sentence string }{
		"none":              {spec: one},
		"Kata's":            {spec: inKata, want: "veth"},
		"another runtime's": {spec: "runtimeClassName: gvisor, " + one},
		"of a class that is not there": {spec: "runtimeClassName: missing, " + one,
			sentence: "runtimeClassName is missing, and there is no such RuntimeClass"},
	} {
		got, err := h.kataOf(t.Context(), parsePod(t, annotated("", test.spec)))
		if got != test.want || (err == nil) != (test.sentence == "") || (err != nil && !strings.Contains(err.Error(), test.sentence)) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	h.Kata = nil
	if got, err := h.kataOf(t.Context(), parsePod(t, annotated("", "runtimeClassName: missing, "+one))); got != "" || err != nil {
		t.Errorf("without Kata: %q, %v", got, err)
	}
}

func TestHandlersAreReadAsTheyAreWritten(t *testing.T) {
	var read Kata
	for _, part := range []string{"kata-qemu=veth", "kata-clh=" + dans + ",kata=veth"} {
		if err := read.Set(part); err != nil {
			t.Fatal(err)
		}
	}
	if got := read.String(); got != "kata=veth,kata-clh="+dans+",kata-qemu=veth" {
		t.Errorf("they are %q", got)
	}
	for _, wrong := range []string{"", "kata", "=veth", "kata=tap", "kata=dans"} {
		if err := read.Set(wrong); err == nil || !strings.Contains(err.Error(), "give HANDLER=veth") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
