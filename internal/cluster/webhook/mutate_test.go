// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

func parsePod(t testing.TB, text string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	must(t, yaml.UnmarshalStrict([]byte(text), pod))
	return pod
}

func asText(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	must(t, err)
	return string(text)
}

// annotated is a pod with these annotations and this spec.
func annotated(annotations, spec string) string {
	return "metadata: {annotations: {kubernetsn.io/network: tsn" + annotations + "}}\nspec: {" + spec + "}"
}

const (
	appContainer = "containers: [{name: app}]"
	networksKey  = ", k8s.v1.cni.cncf.io/networks: "
)

func TestMutate(t *testing.T) {
	pod := parsePod(t, annotated("", `
  initContainers: [{name: prepare}, {name: proxy, restartPolicy: Always}],
  containers: [{name: app, env: [{name: A, value: b}], volumeMounts: [{name: data, mountPath: /data}]}, {name: log}],
  volumes: [{name: data, emptyDir: {}}]`))
	must(t, mutate(pod, "ns", []string{"tsn", "second"}, ""))
	want := parsePod(t, `
metadata:
  labels: {kubernetsn.io/on-network: "true"}
  annotations: {kubernetsn.io/network: tsn, k8s.v1.cni.cncf.io/networks: "tsn@tsn0,second@tsn1"}
spec:
  initContainers:
    - {name: prepare}
    - name: proxy
      restartPolicy: Always
      env: [{name: LD_PRELOAD, value: /run/ktsn/libktsn.so}]
      volumeMounts: [{name: ktsn, mountPath: /run/ktsn, readOnly: true}]
  containers:
    - name: app
      env: [{name: A, value: b}, {name: LD_PRELOAD, value: /run/ktsn/libktsn.so}]
      volumeMounts: [{name: data, mountPath: /data}, {name: ktsn, mountPath: /run/ktsn, readOnly: true}]
    - name: log
      env: [{name: LD_PRELOAD, value: /run/ktsn/libktsn.so}]
      volumeMounts: [{name: ktsn, mountPath: /run/ktsn, readOnly: true}]
  volumes:
    - {name: data, emptyDir: {}}
    - {name: ktsn, csi: {driver: csi.kubernetsn.io, readOnly: true}}
  nodeSelector: {kubernetes.io/arch: amd64}
`)
	if asText(t, pod) != asText(t, want) {
		t.Errorf("got  %s\nwant %s", asText(t, pod), asText(t, want))
	}
	if err := mutate(pod, "ns", []string{"tsn", "second"}, ""); err != nil || asText(t, pod) != asText(t, want) {
		t.Errorf("changed when it came a second time, %v: %s", err, asText(t, pod))
	}
}

func TestMutateKeepsSettings(t *testing.T) {
	for name, test := range map[string]struct{ pod, want string }{
		"only the named containers": {annotated(", kubernetsn.io/containers: 'prepare, app'", "initContainers: [{name: prepare}], containers: [{name: app}, {name: log}]"),
			`"containers":[{"name":"app","env":[{"name":"LD_PRELOAD","value":"/run/ktsn/libktsn.so"}],"resources":{},"volumeMounts":[{"name":"ktsn","readOnly":true,"mountPath":"/run/ktsn"}]},{"name":"log","resources":{}}]`},
		"an init container that is named": {annotated(", kubernetsn.io/containers: prepare", "initContainers: [{name: prepare}], "+appContainer),
			`"initContainers":[{"name":"prepare","env":[{"name":"LD_PRELOAD"`},
		"another preloaded library": {annotated("", "containers: [{name: app, env: [{name: LD_PRELOAD, value: /usr/lib/libjemalloc.so}]}]"),
			`"value":"/usr/lib/libjemalloc.so:/run/ktsn/libktsn.so"`},
		"several, with spaces": {annotated("", "containers: [{name: app, env: [{name: LD_PRELOAD, value: 'a.so b.so '}]}]"),
			`"value":"a.so b.so:/run/ktsn/libktsn.so"`},
		"an empty one": {annotated("", "containers: [{name: app, env: [{name: LD_PRELOAD, value: ''}]}]"), `"value":"/run/ktsn/libktsn.so"`},
		"ours": {annotated("", "containers: [{name: app, env: [{name: LD_PRELOAD, value: '/run/ktsn/libktsn.so a.so'}]}]"),
			`"value":"/run/ktsn/libktsn.so a.so"`},
		"the last of two, which counts": {annotated("", "containers: [{name: app, env: [{name: LD_PRELOAD, value: a}, {name: LD_PRELOAD, value: b}]}]"),
			`[{"name":"LD_PRELOAD","value":"a"},{"name":"LD_PRELOAD","value":"b:/run/ktsn/libktsn.so"}]`},
		"a volume of the driver": {annotated("", "containers: [{name: app}], volumes: [{name: mine, csi: {driver: csi.kubernetsn.io}}]"),
			`"volumeMounts":[{"name":"mine","readOnly":true,"mountPath":"/run/ktsn"}]`},
		"other attachments":                 {annotated(networksKey+"'a, other/b@x0'", appContainer), `"k8s.v1.cni.cncf.io/networks":"a, other/b@x0,tsn@tsn0"`},
		"attachments in JSON":               {annotated(networksKey+`'[{"name": "a", "mac": "02:00:00:00:00:01"}]'`, appContainer), `[{\"name\":\"a\",\"mac\":\"02:00:00:00:00:01\"},{\"interface\":\"tsn0\",\"name\":\"tsn\"}]`},
		"what is unseen":                    {annotated(", kubernetsn.io/unseen: pass", appContainer), `"k8s.v1.cni.cncf.io/networks":"[{\"cni-args\":{\"unseen\":\"pass\"},\"interface\":\"tsn0\",\"name\":\"tsn\"}]"`},
		"receive rings":                     {annotated(", kubernetsn.io/receive: ring", appContainer), `"k8s.v1.cni.cncf.io/networks":"[{\"cni-args\":{\"receive\":\"ring\"},\"interface\":\"tsn0\",\"name\":\"tsn\"}]"`},
		"the variable for receive rings":    {annotated(", kubernetsn.io/receive: ring", appContainer), `"name":"KTSN_RECEIVE","value":"ring"`},
		"what leaves off the network":       {annotated(", kubernetsn.io/off-network: pass", appContainer), `[{\"cni-args\":{\"offNetwork\":\"pass\"},\"interface\":\"tsn0\",`},
		"the variable for it":               {annotated(", kubernetsn.io/off-network: pass", appContainer), `"name":"KTSN_OFF_NETWORK","value":"pass"`},
		"receive rings, and what is unseen": {annotated(", kubernetsn.io/receive: ring, kubernetsn.io/unseen: pass", appContainer), `[{\"cni-args\":{\"receive\":\"ring\",\"unseen\":\"pass\"},`},
		"what is unseen, beside others": {annotated(", kubernetsn.io/unseen: drop"+networksKey+"'a, other/b@x0'", appContainer),
			`[{\"name\":\"a\",\"namespace\":\"ns\"},{\"name\":\"b\",\"namespace\":\"other\",\"interface\":\"x0\"},{\"cni-args\":{\"unseen\":\"drop\"},\"interface\":\"tsn0\",\"name\":\"tsn\"}]`},
		"what is unseen, by hand as well": {annotated(", kubernetsn.io/unseen: pass"+networksKey+`'[{"name": "tsn", "cni-args": {"unseen": "pass"}}]'`, appContainer), `"[{\"name\": \"tsn\", \"cni-args\": {\"unseen\": \"pass\"}}]"`},
		"receive rings of an attachment by hand": {annotated(", kubernetsn.io/receive: ring"+networksKey+"tsn@mine", appContainer),
			`"[{\"cni-args\":{\"receive\":\"ring\"},\"interface\":\"mine\",\"name\":\"tsn\",\"namespace\":\"ns\"}]"`},
		"what is unseen of one with other arguments": {annotated(", kubernetsn.io/unseen: pass"+networksKey+`'[{"name": "a"}, {"name": "tsn", "novel": 1, "cni-args": {"b": 2}}]'`, appContainer),
			`"[{\"name\":\"a\"},{\"cni-args\":{\"b\":2,\"unseen\":\"pass\"},\"name\":\"tsn\",\"novel\":1}]"`},
		"the attachment by hand":      {annotated(networksKey+"tsn@mine", appContainer), `"k8s.v1.cni.cncf.io/networks":"tsn@mine"`},
		"that of another of the name": {annotated(networksKey+"other/tsn@x0", appContainer), `"k8s.v1.cni.cncf.io/networks":"other/tsn@x0,tsn@tsn0"`},
	} {
		t.Run(name, func(t *testing.T) {
			pod := parsePod(t, test.pod)
			must(t, mutate(pod, "ns", []string{"tsn"}, ""))
			if got := asText(t, pod); !strings.Contains(got, test.want) {
				t.Errorf("got  %s\nwant %s in it", got, test.want)
			}
		})
	}
}

func TestMutateInvalid(t *testing.T) {
	for name, test := range map[string]struct{ pod, sentence string }{
		"the node's network":  {annotated("", appContainer+", hostNetwork: true"), "the pod has hostNetwork: true"},
		"Windows":             {annotated("", appContainer+", os: {name: windows}"), "the pod is for Windows"},
		"a missing container": {annotated(", kubernetsn.io/containers: 'app,no'", appContainer), "annotation kubernetsn.io/containers names no, and the pod has no such container; it has app"},
		"no container":        {annotated(", kubernetsn.io/containers: ''", appContainer), "annotation kubernetsn.io/containers is empty"},
		"LD_PRELOAD from elsewhere": {annotated("", "containers: [{name: app, env: [{name: LD_PRELOAD, valueFrom: {configMapKeyRef: {name: a, key: b}}}]}]"),
			"container app sets LD_PRELOAD by valueFrom"},
		"another libktsn.so": {annotated("", "containers: [{name: app, env: [{name: LD_PRELOAD, value: '/usr/lib/ktsn/libktsn.so'}]}]"),
			"container app: LD_PRELOAD names /usr/lib/ktsn/libktsn.so, and two of that library"},
		"a volume of our name": {annotated("", appContainer+", volumes: [{name: ktsn, emptyDir: {}}]"), "the pod has a volume ktsn of its own"},
		"a mount at our place": {annotated("", "containers: [{name: app, volumeMounts: [{name: a, mountPath: /run/ktsn/}]}], volumes: [{name: a, emptyDir: {}}]"),
			"container app has volume a mounted at /run/ktsn"},
		"something else of what leaves off the network": {annotated(", kubernetsn.io/off-network: drop", appContainer), `annotation kubernetsn.io/off-network is "drop"; write refuse, or pass`},
		"something else of what is unseen":              {annotated(", kubernetsn.io/unseen: let", appContainer), `annotation kubernetsn.io/unseen is "let"; write drop, or pass`},
		"something else of receiving":                   {annotated(", kubernetsn.io/receive: xdp", appContainer), `annotation kubernetsn.io/receive is "xdp"; write ring, or leave`},
		"another argument of an attachment by hand": {annotated(", kubernetsn.io/unseen: pass"+networksKey+`'[{"name": "tsn", "cni-args": {"unseen": ["pass"]}}]'`, appContainer),
			`gives the attachment tsn the argument "unseen": ["pass"], and by annotation kubernetsn.io/unseen it is "pass"; remove one of the two`},
		"an interface that is taken": {annotated(networksKey+"other@tsn0", appContainer), "gives interface tsn0 to ns/other"},
		"an attachment that is null": {annotated(networksKey+"'[null]'", appContainer), "annotation k8s.v1.cni.cncf.io/networks has a null among its attachments"},
		"attachments that are none":  {annotated(networksKey+"'[{'", appContainer), "annotation k8s.v1.cni.cncf.io/networks cannot be parsed"},
	} {
		t.Run(name, func(t *testing.T) {
			err := mutate(parsePod(t, test.pod), "ns", []string{"tsn"}, "")
			if err == nil || !strings.Contains(err.Error(), test.sentence) {
				t.Errorf("got %v, want %q", err, test.sentence)
			}
		})
	}
}

func TestReadinessGate(t *testing.T) {
	const ours, another = "kubernetsn.io/attached", "example.org/ready"
	reports := func(node, version string, sets bool) v1alpha1.TSNNode {
		return v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: v1alpha1.TSNNodeStatus{AgentVersion: version, SetsAttached: sets}}
	}
	for name, test := range map[string]struct {
		nodes []v1alpha1.TSNNode
		spec  string
		want  []string
	}{
		"no agent yet":                   {nil, "", []string{ours}},
		"agents that set the condition":  {[]v1alpha1.TSNNode{reports("a", "2", true), reports("b", "2", true)}, "", []string{ours}},
		"an agent that has not reported": {[]v1alpha1.TSNNode{reports("a", "2", true), reports("b", "", false)}, "", []string{ours}},
		"an agent of an older release":   {[]v1alpha1.TSNNode{reports("a", "2", true), reports("b", "1", false)}, "", nil},
		"one that ran on an idle node":   {[]v1alpha1.TSNNode{reports("idle", "1", false)}, "", []string{ours}},
		"one on a node that is down":     {[]v1alpha1.TSNNode{reports("down", "1", false)}, "", []string{ours}},
		"one on a node that has gone":    {[]v1alpha1.TSNNode{reports("gone", "1", false)}, "", []string{ours}},
		"another gate":                   {nil, ", readinessGates: [{conditionType: " + another + "}]", []string{another, ours}},
		"the gate itself":                {nil, ", readinessGates: [{conditionType: " + ours + "}]", []string{ours}},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(parsePod(t, annotated("", appContainer+test.spec)))
			must(t, err)
			cache := oneNetwork{network: &v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "tsn"}}, nodes: test.nodes}
			response := (&Handler{Cached: cache, Live: cache}).Handle(t.Context(), admission.Request{
				AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "ns", Object: runtime.RawExtension{Raw: raw}}})
			if !response.Allowed {
				t.Fatalf("the response is %+v", response)
			}
			pod := &corev1.Pod{}
			must(t, json.Unmarshal(applied(t, raw, response.Patches), pod))
			var gates []string
			for _, gate := range pod.Spec.ReadinessGates {
				gates = append(gates, string(gate.ConditionType))
			}
			if !slices.Equal(gates, test.want) {
				t.Errorf("the gates are %q, want %q", gates, test.want)
			}
			if text := strings.Join(response.Warnings, "; "); strings.Contains(text, "the agent of node b does not set the condition") != (test.want == nil) {
				t.Errorf("the warnings are %q", text)
			}
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
