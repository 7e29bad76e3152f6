// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
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

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// twoNodes is a cluster with one network, the subnets of node1 and node2, and pods with hardware addresses.
type twoNodes struct {
	client.Reader
	ready metav1.Condition
}

func (c twoNodes) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch object := into.(type) {
	case *v1alpha1.TSNNetwork:
		object.Name, object.Generation = key.Name, 2
		object.Spec.IPv4.CIDR, object.Spec.IPv4.Static = "10.70.0.0/16", "10.70.254.0/23"
		if c.ready.Type != "" {
			object.Status.Conditions = []metav1.Condition{c.ready}
		}
		return nil
	case *corev1.Node:
		if key.Name == "node1" || key.Name == "node2" {
			return nil
		}
	case *nodev1.RuntimeClass:
		object.Handler = key.Name
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (twoNodes) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch objects := list.(type) {
	case *v1alpha1.TSNNodeList:
		for node, subnet := range map[string]string{"node1": "10.70.1.0/24", "node2": "10.70.2.0/24", "node3": "10.70.254.0/24"} {
			objects.Items = append(objects.Items, v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: node},
				Spec: v1alpha1.TSNNodeSpec{Networks: []v1alpha1.NodeNetwork{{Name: "tsn", IPv4: subnet}}}})
		}
	case *corev1.PodList:
		for name, phase := range map[string]corev1.PodPhase{"succeeded": corev1.PodSucceeded, "failed": corev1.PodFailed, "other": corev1.PodRunning} {
			mac := map[string]string{"succeeded": "5", "failed": "6", "other": "7"}[name]
			objects.Items = append(objects.Items, corev1.Pod{Status: corev1.PodStatus{Phase: phase}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
				Annotations: map[string]string{"kubernetsn.io/network": "tsn", "k8s.v1.cni.cncf.io/networks": `[{"name":"tsn","mac":"02:00:00:00:00:0` + mac + `","ips":["10.70.255.` + mac + `"]}]`}}})
		}
		objects.Items = append(objects.Items, corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns",
			Name: "hostile", Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": `[{"name":"tsn","ips":["10.70.255.9"]}]`}}})
	}
	return nil
}

// admit has a pod reviewed in a cluster with two nodes.
func admit(t *testing.T, ready metav1.Condition, text string) admission.Response {
	t.Helper()
	raw, err := json.Marshal(parsePod(t, text))
	must(t, err)
	cluster := twoNodes{ready: ready}
	return (&Handler{Cached: cluster, Live: cluster}).Handle(t.Context(), admission.Request{
		AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "ns", Object: runtime.RawExtension{Raw: raw}}})
}

func TestUnknownAnnotations(t *testing.T) {
	for key, want := range map[string]string{
		"kubernetsn.io/netwrok":  "annotation kubernetsn.io/netwrok of the pod is unknown and has no effect; did you mean kubernetsn.io/network?", //nolint:misspell // a typo
		"kubernetsn.io/networks": "did you mean kubernetsn.io/network?",
		"kubernetsn.io/recieve":  "did you mean kubernetsn.io/receive?", //nolint:misspell // a typo
		"kubernetsn.io/vlan":     "docs/guide/networks.md lists the annotations",
		"kubernetsn.io/unseen":   "",
		"example.org/network":    "",
	} {
		response := admit(t, metav1.Condition{}, "metadata: {annotations: {"+key+": tsn}}\nspec: {"+appContainer+"}")
		if !response.Allowed || len(response.Patches) > 0 {
			t.Errorf("%s: the response is %+v", key, response)
		}
		if text := strings.Join(response.Warnings, "; "); !strings.Contains(text, want) || want == "" && text != "" {
			t.Errorf("%s: the warning is %q, want %q", key, text, want)
		}
	}
}

func TestPodOnNetworkThatIsNotReady(t *testing.T) {
	for name, test := range map[string]struct {
		reason          string
		generation      int64
		refused, warned string
	}{
		"a range that is in use":           {reason: v1alpha1.ReasonOverlaps, generation: 2, refused: "TSNNetwork tsn accepts no pods (Overlaps): the message"},
		"a range before it was changed":    {reason: v1alpha1.ReasonOverlaps, generation: 1},
		"a cluster without Multus":         {reason: v1alpha1.ReasonMultusMissing, generation: 2, warned: "TSNNetwork tsn is not ready, and the pod may wait (MultusMissing): the message"},
		"a node that has not reported yet": {reason: v1alpha1.ReasonNodeWaited, generation: 2},
	} {
		ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: test.reason, Message: "the message", ObservedGeneration: test.generation}
		response := admit(t, ready, annotated("", appContainer))
		if response.Allowed != (test.refused == "") || !response.Allowed && response.Result.Message != test.refused || strings.Join(response.Warnings, "; ") != test.warned {
			t.Errorf("%s: the response is %+v", name, response)
		}
	}
}

func TestRequests(t *testing.T) {
	requests := func(fields string) string { return networksKey + `'[{"name": "tsn", ` + fields + `}]'` }
	const onNode2 = ", nodeSelector: {kubernetes.io/hostname: node2}"
	for name, test := range map[string]struct{ annotations, spec, refused string }{
		"an address of its node":         {requests(`"ips": ["10.70.2.77/16"]`), onNode2, ""},
		"an address, and any node":       {requests(`"ips": ["10.70.1.77/16"]`), "", ""},
		"a node that is unknown":         {requests(`"ips": ["10.70.1.77"]`), ", nodeSelector: {kubernetes.io/hostname: node9}", ""},
		"an address of another node":     {requests(`"ips": ["10.70.1.77/16"]`), onNode2, `"10.70.1.77/16" on TSNNetwork tsn, which belongs to node node1, and the pod is for node node2`},
		"bound to another node":          {requests(`"ips": ["10.70.1.77"]`), ", nodeName: node2", "which belongs to node node1"},
		"an address of no range":         {requests(`"ips": ["10.71.1.77/16"]`), "", "which is not in its ranges, [10.70.0.0/16]"},
		"no address":                     {requests(`"ips": ["seven"]`), "", "which is no IP address"},
		"on another network":             {networksKey + `'[{"name": "tsn", "namespace": "other", "ips": ["10.71.1.77/16"]}]'`, "", ""},
		"a static address":               {requests(`"ips": ["10.70.255.77/16"]`), onNode2, ""},
		"a static one of another pod":    {requests(`"ips": ["10.70.255.7/16"]`), "", `"10.70.255.7/16" on TSNNetwork tsn, which pod ns/other has`},
		"one of a pod without network":   {requests(`"ips": ["10.70.255.9"]`), "", ""},
		"too many":                       {requests(`"ips": ["10.70.1.7", "10.70.1.8", "10.70.1.9"]`), "", "requests 3 addresses on TSNNetwork tsn; a pod has at most one of each family"},
		"that of a pod that ended":       {requests(`"ips": ["10.70.255.5"]`), "", ""},
		"a static one that a node has":   {requests(`"ips": ["10.70.254.7"]`), "", "which is in the subnet of node node3"},
		"two of which one is static":     {requests(`"ips": ["10.70.255.77", "10.70.1.7"]`), "", "requests 10.70.255.77 and 10.70.1.7 on TSNNetwork tsn"},
		"a range and no StatefulSet":     {requests(`"ips": ["10.70.255.16/28"]`), "", "the pod is of no StatefulSet"},
		"a hardware address":             {requests(`"mac": "02:00:00:00:00:08"`), "", ""},
		"a multicast address":            {requests(`"mac": "03:00:00:00:00:08"`), "", "which is a multicast address"},
		"the address zero":               {requests(`"mac": "00:00:00:00:00:00"`), "", "which no interface can have"},
		"no hardware address":            {requests(`"mac": "02:00:00:00:00:00:00:08"`), "", "which is none; give one"},
		"one of another pod":             {requests(`"mac": "02:00:00:00:00:07"`), "", "which pod ns/other has"},
		"one of a pod that succeeded":    {requests(`"mac": "02:00:00:00:00:05"`), "", ""},
		"one of a pod that failed":       {requests(`"mac": "02:00:00:00:00:06"`), "", ""},
		"one of an address":              {requests(`"mac": "0a:58:0a:46:01:02"`), "", "which is the one of the pod with 10.70.1.2"},
		"one of its own address":         {requests(`"ips": ["10.70.1.2/16"], "mac": "0a:58:0a:46:01:02"`), "", ""},
		"one of an address without pods": {requests(`"mac": "0a:58:0a:47:01:02"`), "", ""},
		"nodes of another architecture":  {"", ", nodeSelector: {kubernetes.io/arch: arm64}", "the pod has the nodeSelector kubernetes.io/arch: arm64"},
		"gVisor":                         {"", ", runtimeClassName: gvisor", "RuntimeClass gvisor of the pod is gVisor's"},
		"another runtime of its name":    {", kubernetsn.io/runtime: unchecked", ", runtimeClassName: runsc", ""},
		"an unknown check":               {", kubernetsn.io/runtime: any", "", `annotation kubernetsn.io/runtime is "any"; write unchecked`},
	} {
		t.Run(name, func(t *testing.T) {
			response := admit(t, metav1.Condition{}, annotated(test.annotations, appContainer+test.spec))
			if response.Allowed != (test.refused == "") || !response.Allowed && !strings.Contains(response.Result.Message, test.refused) {
				t.Errorf("the response is %+v, want %q", response, test.refused)
			}
		})
	}
}

// ipsOf returns the addresses that an admitted pod requests, or the reason why it is refused.
func ipsOf(t *testing.T, text string) string {
	t.Helper()
	pod := parsePod(t, text)
	cluster := twoNodes{}
	if _, err := (&Handler{Cached: cluster, Live: cluster}).mutatePod(t.Context(), pod, "ns"); err != nil {
		return err.Error()
	}
	elements, err := attachmentsOf(pod, "ns")
	must(t, err)
	return strings.Join(elements[0].IPRequest, " ")
}

func TestAddressesAnnotation(t *testing.T) {
	const annotation = ", kubernetsn.io/addresses: "
	for annotations, want := range map[string]string{
		annotation + "10.70.255.77":                            "10.70.255.77",
		annotation + "' 10.70.1.77/16'":                        "10.70.1.77/16",
		annotation + "10.71.1.77":                              `"10.71.1.77" is no address of the pod's networks`,
		annotation + "seven":                                   `"seven" is no address of the pod's networks`,
		annotation + "''":                                      `"" is no address of the pod's networks`,
		annotation + "10.70.255.7":                             "which pod ns/other has",
		annotation + "'10.70.1.7,10.70.1.8,10.70.1.9'":         "has 3 addresses; a pod has at most one of each family",
		annotation + "'10.70.255.77,10.70.255.78'":             "requests 10.70.255.77 and 10.70.255.78",
		annotation + "10.70.255.77" + networksKey + `tsn@tsn0`: "10.70.255.77",
		annotation + "10.70.255.77" + networksKey + `'[{"name": "tsn", "interface": "pod1", "mac": "02:00:00:00:00:08"}]'`: "10.70.255.77", // as KubeVirt
		annotation + "10.70.255.77" + networksKey + `'[{"name": "tsn", "ips": ["10.70.255.77/16"]}]'`:                      "10.70.255.77/16",
	} {
		if got := ipsOf(t, annotated(annotations, appContainer)); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", annotations, got, want)
		}
	}
}

func TestStaticRangeOfStatefulSet(t *testing.T) {
	for index, want := range map[string]string{
		"0": "10.70.255.16/32", "3": "10.70.255.19/32", "15": "10.70.255.31/32", "16": "which has none for the pod with the number 16",
		"-1": "of no StatefulSet", "4294967296": "of no StatefulSet",
	} {
		const annotation, ips = ", kubernetsn.io/addresses: 10.70.255.16/28", networksKey + `'[{"name": "tsn", "ips": ["%s"]}]'`
		requests := []string{annotation, fmt.Sprintf(ips, "10.70.255.16/28")}
		if strings.HasPrefix(want, "10.") {
			requests = append(requests, annotation+fmt.Sprintf(ips, want)) // the webhook is called again
		}
		for _, request := range requests {
			pod := strings.Replace(annotated(request, appContainer), "metadata: {", "metadata: {labels: {apps.kubernetes.io/pod-index: '"+index+"'}, ", 1)
			if got := ipsOf(t, pod); !strings.HasSuffix(got, want) && !strings.Contains(got, want+" in its") && !strings.Contains(got, want+" (label") {
				t.Errorf("pod %s, %s: got %s, want %s", index, request, got, want)
			}
		}
	}
}

func TestSelectArchitecture(t *testing.T) {
	for spec, want := range map[string]string{
		"": "amd64", ", nodeSelector: {disk: ssd}": "amd64", ", nodeName: node1": "",
	} {
		pod := parsePod(t, annotated("", appContainer+spec))
		must(t, mutate(pod, "ns", []string{"tsn"}, ""))
		if got := pod.Spec.NodeSelector[corev1.LabelArchStable]; got != want {
			t.Errorf("%q: the pod selects nodes with %q, want %q", spec, got, want)
		}
	}
}
