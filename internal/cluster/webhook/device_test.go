// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	nettypes "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	admissionv1 "k8s.io/api/admission/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

const (
	dans   = "/run/kata-containers/dans"
	inKata = "runtimeClassName: kata, " + appContainer
	// twoProcessors is an annotation.
	twoProcessors = "io.katacontainers.config.hypervisor.default_vcpus: '2'"
	danArgs       = `"device-dan":"/run/kata-containers/dans",`
)

func TestApplyKata(t *testing.T) {
	for name, test := range map[string]struct{ pod, kata, attachments string }{
		"in the network namespace": {annotated("", inKata), "veth",
			`[{"cni-args":{"device":"veth","device-class":"record","device-owner":0,"device-queues":1},"interface":"tsn0","name":"tsn"}]`},
		"by the class of tags": {annotated(", kubernetsn.io/device-class: pcp", inKata), "veth",
			`[{"cni-args":{"device":"veth","device-class":"pcp","device-owner":0,"device-queues":1},"interface":"tsn0","name":"tsn"}]`},
		"directly attached": {annotated("", inKata), dans,
			`[{"cni-args":{"device":"tap","device-class":"record",` + danArgs + `"device-owner":0,"device-queues":1},"interface":"tsn0","name":"tsn"}]`},
		"given a card": {annotated(", kubernetsn.io/device: vfio", inKata), dans,
			`[{"cni-args":{"device":"vfio","device-class":"record",` + danArgs + `"device-owner":0,"device-queues":1},"interface":"tsn0","name":"tsn"}]`},
		"directly attached by vhost-user": {annotated(", kubernetsn.io/device: vhost-user, kubernetsn.io/device-queues: '2', "+twoProcessors, inKata), dans,
			`[{"cni-args":{"device":"vhost-user","device-class":"record",` + danArgs + `"device-owner":0,"device-queues":2},"interface":"tsn0","name":"tsn"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			pod := parsePod(t, test.pod)
			for range 2 { // it may come twice
				must(t, mutate(pod, "ns", []string{"tsn"}, test.kata))
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

func TestApplyKataInvalid(t *testing.T) {
	for name, test := range map[string]struct{ pod, kata, sentence string }{
		"a tap where Kata makes its own": {annotated(", kubernetsn.io/device: tap", inKata), "veth",
			`annotation kubernetsn.io/device is "tap", and the runtime of the pod, Kata, takes the interface itself (veth); remove the annotation`},
		"a veth that Kata does not see": {annotated(", kubernetsn.io/device: veth", inKata), dans,
			`annotation kubernetsn.io/device is "veth", and the runtime of the pod, Kata, does not look into the network namespace; give tap or vhost-user`},
		"a card where Kata reads no file": {annotated(", kubernetsn.io/device: vfio", inKata), "veth",
			`annotation kubernetsn.io/device is "vfio", and a card reaches the machine by a file of network devices, which the runtime of the pod does not read`},
		"a card without Kata":   {annotated(", kubernetsn.io/device: vfio", appContainer), "", "device is vfio, and no runtime finds the card"},
		"several queues of one": {annotated(", kubernetsn.io/device: vfio, kubernetsn.io/device-queues: '2', "+twoProcessors, inKata), dans, "queues, classes and owner are the card's own"},
		"classes by a queue that nobody sees": {annotated(", kubernetsn.io/device-class: queue, kubernetsn.io/device-queues: '2'", inKata), "veth",
			"annotation kubernetsn.io/device-class is queue, and with veth the queue by which a frame left the machine is unknown"},
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

func TestKataDevices(t *testing.T) {
	server := classes{"kata": "kata-qemu", "sandboxed": "runsc", "light": "crun", "fc": "kata-fc"}
	h := &Handler{Cached: classes{}, Live: server, Kata: Kata{"kata-qemu": "veth"}}
	without := &Handler{Cached: classes{}, Live: server}
	get := func(class string) string { return "runtimeClassName: " + class + ", " + appContainer }
	for name, test := range map[string]struct {
		handler                 *Handler
		spec                    string
		want, warning, sentence string
	}{
		"none":              {handler: h, spec: appContainer},
		"Kata's":            {handler: h, spec: inKata, want: "veth"},
		"another runtime's": {handler: h, spec: get("light")},
		"gVisor's":          {handler: h, spec: get("sandboxed"), sentence: "handler runsc of the pod is gVisor's"},
		"one of Kata's that the operator was not told of": {handler: h, spec: get("fc"),
			warning: "handler kata-fc of the pod seems to be Kata's, and kata.handlers of the chart does not name it"},
		"of a class that is not there":        {handler: h, spec: get("missing"), sentence: "runtimeClassName is missing, and there is no such RuntimeClass"},
		"where the operator was told of none": {handler: without, spec: get("light")},
		"and the class is Kata's":             {handler: without, spec: get("fc"), warning: "handler kata-fc of the pod seems to be Kata's"},
		"and the class is gVisor's":           {handler: without, spec: get("sandboxed"), sentence: "handler runsc of the pod is gVisor's"},
	} {
		got, warning, err := test.handler.kataDevices(t.Context(), parsePod(t, annotated("", test.spec)))
		if got != test.want || !strings.HasPrefix(warning, test.warning) || (warning == "") != (test.warning == "") ||
			(err == nil) != (test.sentence == "") || (err != nil && !strings.Contains(err.Error(), test.sentence)) {
			t.Errorf("%s: %q, %q, %v", name, got, warning, err)
		}
	}
}

func TestKataWarning(t *testing.T) {
	pod, err := json.Marshal(parsePod(t, annotated("", "runtimeClassName: kata-clh, "+appContainer)))
	must(t, err)
	cache := oneNetwork{network: &v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "tsn"}}}
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "ns", Object: runtime.RawExtension{Raw: pod}}}
	response := (&Handler{Cached: cache, Live: cache}).Handle(t.Context(), request)
	if !response.Allowed || len(response.Patches) == 0 || len(response.Warnings) != 1 || !strings.Contains(response.Warnings[0], "kata.handlers of the chart") {
		t.Errorf("the response is %+v", response)
	}
}

func TestCheckCard(t *testing.T) {
	pod, err := json.Marshal(parsePod(t, annotated(", kubernetsn.io/device: vfio", inKata)))
	must(t, err)
	for name, test := range map[string]struct {
		cards, namespaces []string
		want              string
	}{
		"no cards":               {nil, []string{"ns"}, "TSNNetwork tsn has no cards for pods (spec.cards)"},
		"cards for nobody":       {[]string{"0000:02:00.0"}, nil, "pods of namespace ns may not have cards of TSNNetwork tsn (spec.cardNamespaces)"},
		"cards for others":       {[]string{"0000:02:00.0"}, []string{"other"}, "pods of namespace ns may not have cards of TSNNetwork tsn"},
		"cards of the namespace": {[]string{"0000:02:00.0"}, []string{"other", "ns"}, ""},
	} {
		network := &v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "tsn"}}
		network.Spec.Cards, network.Spec.CardNamespaces = test.cards, test.namespaces
		both := cardNetwork{classes{"kata": "kata-rs"}, oneNetwork{network: network}}
		request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "ns", Object: runtime.RawExtension{Raw: pod}}}
		response := (&Handler{Cached: both, Live: both, Kata: Kata{"kata-rs": dans}}).Handle(t.Context(), request)
		if response.Allowed != (test.want == "") || (test.want != "" && !strings.Contains(response.Result.Message, test.want)) {
			t.Errorf("%s: %+v", name, response)
		}
	}
}

// cardNetwork is an API server that has RuntimeClasses and a network.
type cardNetwork struct {
	classes
	network oneNetwork
}

func (c cardNetwork) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if _, ok := into.(*nodev1.RuntimeClass); ok {
		return c.classes.Get(ctx, key, into, options...)
	}
	return c.network.Get(ctx, key, into, options...)
}

func TestKataFlag(t *testing.T) {
	var read Kata
	for _, part := range []string{"kata-qemu=veth", "kata-clh=" + dans + ",kata=veth"} {
		must(t, read.Set(part))
	}
	if want := (Kata{"kata": "veth", "kata-clh": dans, "kata-qemu": "veth"}); !maps.Equal(read, want) {
		t.Errorf("got %v, want %v", read, want)
	}
	for _, wrong := range []string{"", "kata", "=veth", "kata=tap", "kata=dans"} {
		if err := read.Set(wrong); err == nil || !strings.Contains(err.Error(), "give HANDLER=veth") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

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
