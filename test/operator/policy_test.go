// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

const (
	annotationCounts = "the annotation kubernetsn.io/network is read when a pod is created"
	labelStays       = "the label kubernetsn.io/on-network means that a pod was created with the annotation kubernetsn.io/network or with labels of links"
	noStaticPods     = "kubelet starts it from a file of its node, and nothing can be added to it"
	labelAlone       = "the pod has the label kubernetsn.io/on-network and neither the annotation kubernetsn.io/network nor a label of links; remove the label"
)

var (
	policyOnce sync.Once
	errPolicy  error
)

// needPolicy is needOperator with the chart's policies on pods, TSNNodes and what is the operator's in force. They stay for the tests
// that come after.
func needPolicy(t *testing.T) context.Context {
	t.Helper()
	ctx := needOperator(t)
	policyOnce.Do(func() { errPolicy = applyPolicies(ctx) })
	if errPolicy != nil {
		t.Fatal(errPolicy)
	}
	return ctx
}

const helm = "../../bin/helm"

// applyChart makes what helm renders of some templates.
func applyChart(ctx context.Context, templates ...string) error {
	arguments := []string{"template", "x", "../../charts/kubernetsn", "--kube-version", "1.34.0",
		"--set", "image.prefix=registry.example.org/kubernetsn,image.tag=dev,links.reservedRanges={10.194.0.0/16}"}
	for _, name := range templates {
		arguments = append(arguments, "--show-only", "templates/"+name)
	}
	text, err := exec.CommandContext(ctx, helm, arguments...).Output()
	if err != nil {
		return fmt.Errorf("render the chart: %w", err)
	}
	for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(part, object); err != nil {
			return err
		}
		if err := admin.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// applyPolicies waits until the API server goes by them.
func applyPolicies(ctx context.Context) error {
	if err := applyChart(ctx, "operator-pods.yaml", "operator-status.yaml", "operator-own.yaml", "operator-services.yaml"); err != nil {
		return err
	}
	probe := newNetwork("policy-probe", 219, "10.219.0.0/16")
	if err := admin.Create(ctx, probe); err != nil {
		return err
	}
	defer func() { _ = admin.Delete(ctx, probe) }() // which disturbs nobody if it stays
	nobody, err := client.New(agentAccount(""), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return within(ctx, func() error {
		if err := admin.Create(ctx, labelledByHand("probe"), client.DryRunAll); err == nil {
			return errNotYet
		}
		if err := nobody.Create(ctx, stateOf("policy-probe"), client.DryRunAll); err == nil {
			return errNotYet
		}
		return ownInForce(ctx, probe)
	})
}

// labelledByHand is a pod on no network.
func labelledByHand(name string) *corev1.Pod {
	pod := plainPod(name, "default")
	pod.Labels = map[string]string{v1alpha1.PodLabel: v1alpha1.LabelValue}
	return pod
}

// checkRefusal fails the test if a request was not refused with a text; with "" it must be allowed.
func checkRefusal(t *testing.T, name string, err error, text string) {
	t.Helper()
	if err := refusalError(err, text); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// refusalError returns an error if a request was not refused with a sentence; with "" it must be allowed.
func refusalError(err error, sentence string) error {
	switch {
	case sentence == "" && err != nil:
		return fmt.Errorf("refused: %w", err)
	case sentence != "" && err == nil:
		return fmt.Errorf("allowed, want %q", sentence)
	case sentence != "" && !strings.Contains(err.Error(), sentence):
		return fmt.Errorf("got %w, want %q", err, sentence)
	}
	return nil
}

func TestPodLabelOnCreate(t *testing.T) {
	ctx := needPolicy(t)
	create(ctx, t, newNetwork("policy-made", 210, "10.210.0.0/16"))
	both := onNetwork("both", "default", "policy-made", "")
	both.Labels = map[string]string{v1alpha1.PodLabel: v1alpha1.LabelValue}
	for name, test := range map[string]struct {
		pod      *corev1.Pod
		sentence string
	}{
		"neither":                        {plainPod("neither", "default"), ""},
		"the annotation":                 {onNetwork("annotated", "default", "policy-made", ""), ""},
		"both, as a copy of another pod": {both, ""},
		"the label alone":                {labelledByHand("alone"), labelAlone},
	} {
		t.Run(name, func(t *testing.T) {
			checkRefusal(t, "", admin.Create(ctx, test.pod, client.DryRunAll), test.sentence)
		})
	}
}

// mirrorPod is what kubelet creates for a static pod, and anybody else can.
func mirrorPod(name string, labels, annotations map[string]string) *corev1.Pod {
	pod := plainPod(name, "default")
	pod.Spec.NodeName, pod.Labels, pod.Annotations = "mirror-node", labels, map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	for key, value := range annotations {
		pod.Annotations[key] = value
	}
	return pod
}

func TestStaticPods(t *testing.T) {
	ctx := needPolicy(t)
	network := newNetwork("mirrored", 199, "10.199.0.0/16")
	network.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tenant": "a"}}
	create(ctx, t, newNode("mirror-node"), network)
	on, named := map[string]string{v1alpha1.PodLabel: v1alpha1.LabelValue}, map[string]string{v1alpha1.NetworkAnnotation: "mirrored"}
	for name, test := range map[string]struct {
		pod      *corev1.Pod
		sentence string
	}{
		"nothing of ours":          {mirrorPod("plain", map[string]string{"tier": "control-plane"}, nil), ""},
		"a network":                {mirrorPod("named", nil, named), noStaticPods},
		"a network, and the label": {mirrorPod("both", on, named), noStaticPods},
		"the label alone":          {mirrorPod("alone", on, nil), noStaticPods},
		"an endpoint":              {mirrorPod("endpoint", map[string]string{v1alpha1.EndpointLabelPrefix + "s": "e"}, nil), noStaticPods},
		"a client":                 {mirrorPod("client", map[string]string{v1alpha1.ClientLabelPrefix + "s": "c"}, nil), noStaticPods},
		"an endpoint, marked": {mirrorPod("marked", map[string]string{v1alpha1.EndpointLabelPrefix + "s": "e", v1alpha1.PodLabel: v1alpha1.LabelValue}, nil),
			noStaticPods},
	} {
		t.Run(name, func(t *testing.T) {
			checkRefusal(t, "", admin.Create(ctx, test.pod, client.DryRunAll), test.sentence)
		})
	}
	// The policy alone refuses them, too: the webhook may be another's.
	unasked := operatorWithAllRights(t)
	checkRefusal(t, "", unasked.Create(ctx, mirrorPod("alone", on, nil), client.DryRunAll), noStaticPods)
	static := mirrorPod("static", nil, nil)
	create(ctx, t, static)
	static.Status.Phase = corev1.PodRunning
	if err := admin.Status().Update(ctx, static); err != nil {
		t.Errorf("the status of a static pod: %v", err)
	}
	patch := mergePatch(`{"metadata":{"labels":{"kubernetsn.io/on-network":"true"},"annotations":{"kubernetsn.io/network":"mirrored"}}}`)
	if err := admin.Patch(ctx, static, patch, client.DryRunAll); err == nil {
		t.Error("a static pod was put on a network")
	}
}

func TestPodLabelUpdates(t *testing.T) {
	ctx := needPolicy(t)
	create(ctx, t, newNetwork("policy", 211, "10.211.0.0/16"))
	plain, on := plainPod("policy-plain", "default"), onNetwork("policy-on", "default", "policy", "")
	create(ctx, t, plain, on)
	for name, test := range map[string]struct {
		pod             *corev1.Pod
		patch, sentence string
	}{
		"others' labels and annotations of a plain pod": {plain, `{"labels":{"a":"b"},"annotations":{"c":"d"}}`, ""},
		"others' of a pod on a network":                 {on, `{"labels":{"a":"b"},"annotations":{"k8s.v1.cni.cncf.io/network-status":"[]"}}`, ""},
		"both as they are":                              {on, `{"labels":{"kubernetsn.io/on-network":"true"},"annotations":{"kubernetsn.io/network":"policy"}}`, ""},
		"a label of a plain pod":                        {plain, `{"labels":{"kubernetsn.io/on-network":"true"}}`, labelStays},
		"an empty label of a plain pod":                 {plain, `{"labels":{"kubernetsn.io/on-network":""}}`, labelStays},
		"an annotation of a plain pod":                  {plain, `{"annotations":{"kubernetsn.io/network":"policy"}}`, annotationCounts},
		"both of a plain pod": {plain, `{"labels":{"kubernetsn.io/on-network":"true"},"annotations":{"kubernetsn.io/network":"policy"}}`,
			annotationCounts},
		"no label any more":      {on, `{"labels":{"kubernetsn.io/on-network":null}}`, labelStays},
		"no labels any more":     {on, `{"labels":null}`, labelStays},
		"another label":          {on, `{"labels":{"kubernetsn.io/on-network":"false"}}`, labelStays},
		"no annotation any more": {on, `{"annotations":{"kubernetsn.io/network":null}}`, annotationCounts},
		"another annotation":     {on, `{"annotations":{"kubernetsn.io/network":"another"}}`, annotationCounts},
		"neither any more": {on, `{"labels":{"kubernetsn.io/on-network":null},"annotations":{"kubernetsn.io/network":null}}`,
			annotationCounts},
	} {
		patch := mergePatch(`{"metadata":` + test.patch + `}`)
		t.Run(name, func(t *testing.T) {
			checkRefusal(t, "", admin.Patch(ctx, test.pod.DeepCopy(), patch, client.DryRunAll), test.sentence)
		})
		t.Run(name+", by its status", func(t *testing.T) {
			checkRefusal(t, "", admin.Status().Patch(ctx, test.pod.DeepCopy(), patch, client.DryRunAll), test.sentence)
		})
	}
}

// Where a pod's other subresources take no labels, the policy need not know of them.
func TestOtherSubresourcesTakeNoLabels(t *testing.T) {
	ctx := needPolicy(t)
	create(ctx, t, newNode("policy-node"))
	pod := plainPod("policy-other", "default")
	create(ctx, t, pod)
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "policy-node"}}
	if err := admin.SubResource("binding").Create(ctx, pod.DeepCopy(), binding); err != nil {
		t.Fatalf("a scheduler is refused: %v", err)
	}
	for _, name := range []string{"ephemeralcontainers", "resize"} {
		current(ctx, t, pod)
		changed := pod.DeepCopy()
		changed.Labels = map[string]string{v1alpha1.PodLabel: v1alpha1.LabelValue}
		changed.Annotations = map[string]string{v1alpha1.NetworkAnnotation: "policy"}
		if name == "ephemeralcontainers" {
			changed.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "none",
					ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePolicy: corev1.TerminationMessageReadFile}}}
		}
		if err := admin.SubResource(name).Update(ctx, changed); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		current(ctx, t, pod)
		if len(pod.Labels) > 0 || pod.Annotations[v1alpha1.NetworkAnnotation] != "" {
			t.Errorf("%s has given the pod %v, %v", name, pod.Labels, pod.Annotations)
		}
	}
}
