// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// services is a cluster with three services, a namespace that may use one of them, and a network.
type services struct{ client.Reader }

func (services) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch object := into.(type) {
	case *v1alpha1.TSNService:
		if key.Namespace == "ns" && slices.Contains([]string{"camera", "chained", "looped"}, key.Name) {
			object.Namespace, object.Name = key.Namespace, key.Name
			object.Spec.ClientNamespaces = &metav1.LabelSelector{MatchLabels: map[string]string{"site": "a"}}
			if key.Name == "chained" {
				object.Spec.Chain = []v1alpha1.ChainElement{{Name: "filter", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "filter"}}}}
			}
			if key.Name == "looped" {
				object.Spec.Endpoint = &metav1.LabelSelector{MatchLabels: map[string]string{"end": "yes"}}
				object.Spec.Chain = []v1alpha1.ChainElement{{Name: "filter", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "filter"}}},
					{Name: "second", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"twice": "yes"}}}}
			}
			return nil
		}
	case *corev1.Namespace:
		if object.Name = key.Name; key.Name == "site-a" {
			object.Labels = map[string]string{"site": "a"}
		}
		return nil
	case *v1alpha1.TSNNetwork:
		object.Name = key.Name
		return nil
	case *nodev1.RuntimeClass:
		object.Handler = key.Name
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (services) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func linkHandler() *Handler {
	return &Handler{Cached: services{}, Live: services{}, Kata: Kata{"kata": "veth"},
		Links: Links{Namespace: "kubernetsn-system", Image: "registry.example.org/ktsn-agent:1", PullPolicy: corev1.PullIfNotPresent}}
}

// review has a pod reviewed, and returns what the API server makes of the answer.
func review(t *testing.T, namespace, text string) (admission.Response, *corev1.Pod) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	must(t, err)
	response := linkHandler().Handle(t.Context(), admission.Request{
		AdmissionRequest: admissionv1.AdmissionRequest{Namespace: namespace, Object: runtime.RawExtension{Raw: raw}}})
	if !response.Allowed {
		return response, nil
	}
	pod := &corev1.Pod{}
	must(t, json.Unmarshal(applied(t, raw, response.Patches), pod))
	return response, pod
}

// labelled is a pod with these labels and this spec.
func labelled(labels, spec string) string {
	return "metadata: {labels: {" + labels + "}}\nspec: {" + spec + "}"
}

func TestAddWaiter(t *testing.T) {
	response, pod := review(t, "ns", labelled("client.kubernetsn.io/camera: cam, client.kubernetsn.io/chained: ch", "initContainers: [{name: prepare}], "+appContainer))
	if pod == nil || len(response.Warnings) > 0 {
		t.Fatalf("got %+v", response)
	}
	want := parsePod(t, `
metadata:
  labels: {client.kubernetsn.io/camera: cam, client.kubernetsn.io/chained: ch, kubernetsn.io/on-network: "true"}
  annotations: {k8s.v1.cni.cncf.io/networks: kubernetsn-system/kubernetsn-links@ktsn-links}
spec:
  initContainers:
    - name: ktsn-wait
      image: registry.example.org/ktsn-agent:1
      imagePullPolicy: IfNotPresent
      command: [/usr/bin/ktsn-wait]
      args: [cam, ch]
      terminationMessagePolicy: FallbackToLogsOnError
      resources: {requests: {cpu: 20m, memory: 24Mi}, limits: {cpu: 20m, memory: 24Mi}}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
        seccompProfile: {type: RuntimeDefault}
      volumeMounts:
        - {name: ktsn, mountPath: /run/ktsn, readOnly: true}
        - {name: ktsn, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
    - {name: prepare}
  containers:
    - name: app
      env: [{name: LD_PRELOAD, value: /run/ktsn/libktsn.so}]
      volumeMounts: [{name: ktsn, mountPath: /run/ktsn, readOnly: true}]
  volumes:
    - {name: ktsn, csi: {driver: csi.kubernetsn.io, readOnly: true}}
  nodeSelector: {kubernetes.io/arch: amd64}
`)
	if asText(t, pod) != asText(t, want) {
		t.Errorf("got  %s\nwant %s", asText(t, pod), asText(t, want))
	}
	if again, _ := review(t, "ns", asText(t, pod)); len(again.Patches) > 0 || !again.Allowed {
		t.Errorf("changed when it came a second time: %+v", again)
	}
	pod.Spec.InitContainers = slices.Insert(pod.Spec.InitContainers, 0, corev1.Container{Name: "of-another-webhook"})
	want.Spec.InitContainers = slices.Insert(want.Spec.InitContainers, 1, corev1.Container{Name: "of-another-webhook"})
	if _, again := review(t, "ns", asText(t, pod)); again == nil || asText(t, again) != asText(t, want) {
		t.Errorf("behind another webhook it is %s, want %s", asText(t, again), asText(t, want))
	}
}

func TestNoWaiter(t *testing.T) {
	for name, labels := range map[string]string{
		"an endpoint":                      "endpoint.kubernetsn.io/camera: cam",
		"a pod in the middle of its chain": "app: filter, client.kubernetsn.io/chained: next, endpoint.kubernetsn.io/chained: before",
	} {
		t.Run(name, func(t *testing.T) {
			response, pod := review(t, "ns", labelled(labels, appContainer))
			if pod == nil || len(pod.Spec.InitContainers) > 0 || pod.Labels[v1alpha1.PodLabel] == "" || len(pod.Spec.Volumes) != 1 {
				t.Errorf("got %+v, %+v", response, pod)
			}
		})
	}
	_, pod := review(t, "ns", labelled("endpoint.kubernetsn.io/camera: cam, client.kubernetsn.io/chained: ch", appContainer))
	if len(pod.Spec.InitContainers) != 1 || fmt.Sprint(pod.Spec.InitContainers[0].Args) != "[ch]" {
		t.Errorf("an endpoint of one service that is a client of another waits for %+v", pod.Spec.InitContainers)
	}
}

func TestNetworkAndLinks(t *testing.T) {
	_, pod := review(t, "ns", `
metadata: {labels: {client.kubernetsn.io/camera: cam}, annotations: {kubernetsn.io/network: tsn, kubernetsn.io/unseen: pass}}
spec: {`+appContainer+`}`)
	if pod == nil {
		t.Fatal("it is refused")
	}
	const want = `[{"cni-args":{"unseen":"pass"},"interface":"tsn0","name":"tsn"},{"interface":"ktsn-links","name":"kubernetsn-links","namespace":"kubernetsn-system"}]`
	if got := pod.Annotations["k8s.v1.cni.cncf.io/networks"]; got != want {
		t.Errorf("it is attached to %s", got)
	}
}

func TestMissingServiceWarning(t *testing.T) {
	response, pod := review(t, "ns", labelled("client.kubernetsn.io/later: up", appContainer))
	if pod == nil || len(pod.Spec.InitContainers) != 1 || len(response.Warnings) != 1 ||
		!strings.Contains(response.Warnings[0], "there is no TSNService later in namespace ns; the pod waits for its link until it is created") {
		t.Errorf("got %+v", response)
	}
}

func TestClientNamespace(t *testing.T) {
	if response, pod := review(t, "site-a", labelled("client.kubernetsn.io/camera.ns: cam", appContainer)); pod == nil {
		t.Errorf("it is refused: %+v", response)
	}
}

func TestLinkRoutes(t *testing.T) {
	for annotation, allowed := range map[string]bool{"10.9.0.0/16, fd00::/8": true, "10.9.0.1/16": false, "10.9.0.1": false, "all": false} {
		response, _ := review(t, "ns", "metadata: {labels: {client.kubernetsn.io/camera: cam}, annotations: {kubernetsn.io/link-routes: '"+annotation+"'}}\nspec: {"+appContainer+"}")
		if response.Allowed != allowed || !allowed && !strings.Contains(response.Result.Message, "annotation kubernetsn.io/link-routes") {
			t.Errorf("%s: %+v", annotation, response.Result)
		}
	}
}

func TestLinksInvalid(t *testing.T) {
	many := make([]string, 0, 17)
	for i := range 17 {
		many = append(many, fmt.Sprintf("client.kubernetsn.io/s%d: i%[1]d", i))
	}
	for name, test := range map[string]struct{ namespace, text, sentence string }{
		"of a namespace that may not": {"site-b", labelled("client.kubernetsn.io/camera.ns: cam", appContainer),
			"pods of namespace site-b may not be clients of TSNService ns/camera: its spec.clientNamespaces (site=a) does not select the namespace"},
		"with an empty label":                  {"ns", labelled(`client.kubernetsn.io/camera: ""`, appContainer), "label client.kubernetsn.io/camera is empty"},
		"with a name too long":                 {"ns", labelled("client.kubernetsn.io/camera: a-very-long-name", appContainer), "which has 16 characters"},
		"with one interface twice":             {"ns", labelled("client.kubernetsn.io/camera: x, client.kubernetsn.io/chained: x", appContainer), "give interface x and interface x, which can be the same interface"},
		"with the primary network's interface": {"ns", labelled("client.kubernetsn.io/camera: eth0", appContainer), "the pod already has an interface eth0 (of the primary network)"},
		"with a network's interface": {"ns", "metadata: {labels: {endpoint.kubernetsn.io/camera: tsn}, annotations: {kubernetsn.io/network: tsn}}\nspec: {" + appContainer + "}",
			"the pod already has an interface tsn0 (of TSNNetwork tsn)"},
		"with an interface that Multus names": {"ns", "metadata: {labels: {client.kubernetsn.io/camera: net1}, annotations: {k8s.v1.cni.cncf.io/networks: other}}\nspec: {" + appContainer + "}",
			"the pod already has an interface net1 (of network ns/other)"},
		"of both roles without a chain":  {"ns", labelled("client.kubernetsn.io/camera: a, endpoint.kubernetsn.io/camera: b", appContainer), "has no spec.chain; remove one of the two labels"},
		"of both roles and no element":   {"ns", labelled("client.kubernetsn.io/chained: a, endpoint.kubernetsn.io/chained: b", appContainer), "no element of spec.chain of TSNService ns/chained selects it"},
		"with two labels of one service": {"ns", labelled("client.kubernetsn.io/camera: a, client.kubernetsn.io/camera.ns: b", appContainer), "both request a link of TSNService ns/camera"},
		"that is in a chain twice": {"ns", labelled("app: filter, twice: \"yes\", client.kubernetsn.io/looped: a, endpoint.kubernetsn.io/looped: b", appContainer),
			"selected by several elements of spec.chain of TSNService ns/looped (filter, second), so that the chain would lead through it twice; let one select it"},
		"that is element and endpoint": {"ns", labelled("app: filter, end: \"yes\", client.kubernetsn.io/looped: a, endpoint.kubernetsn.io/looped: b", appContainer),
			"the pod is element filter of the chain of TSNService ns/looped and, by spec.endpoint, its endpoint, so that the chain would be a loop"},
		"that would be linked to itself": {"ns", labelled("client.kubernetsn.io/camera.ns: a, endpoint.kubernetsn.io/camera: b", appContainer), "has no spec.chain; remove one of the two labels"},
		"of too many services":           {"ns", labelled(strings.Join(many, ", "), appContainer), "the pod is a client of 17 services"},
		"on the node's network":          {"ns", labelled("client.kubernetsn.io/camera: a", "hostNetwork: true, "+appContainer), "remove hostNetwork, or the label client.kubernetsn.io/camera"},
		"of Kata":                        {"ns", labelled("client.kubernetsn.io/camera: a", "runtimeClassName: kata, "+appContainer), "its runtime is Kata"},
		"with a device": {"ns", "metadata: {labels: {client.kubernetsn.io/camera: a}, annotations: {kubernetsn.io/device: tap}}\nspec: {" + appContainer + "}",
			"a virtual machine has its interfaces"},
		"with a container of the waiter's name": {"ns", labelled("client.kubernetsn.io/camera: a", "containers: [{name: ktsn-wait}]"),
			"the pod already has a container ktsn-wait"},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := review(t, test.namespace, test.text)
			if response.Allowed || !strings.Contains(response.Result.Message, test.sentence) {
				t.Errorf("got %+v, want %q", response.Result, test.sentence)
			}
		})
	}
}
