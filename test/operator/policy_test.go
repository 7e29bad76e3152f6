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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
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

// TestOnlyOwnAgentSetsAttached uses agents with all rights, which only the policies limit.
func TestOnlyOwnAgentSetsAttached(t *testing.T) {
	ctx := needPolicy(t)
	create(ctx, t, newNetwork("gated", 198, "10.198.0.0/16"), newNode("gated-1"), newNode("gated-2"))
	pod, plain := onNetwork("gated", "default", "gated", "gated-1"), plainPod("gated-plain", "default")
	plain.Spec.NodeName = "gated-1"
	eventually(ctx, t, func() error { // reports of older agents, of other tests, may not have gone yet
		gated := pod.DeepCopy()
		err := admin.Create(ctx, gated, client.DryRunAll)
		if gates := gated.Spec.ReadinessGates; err == nil && (len(gates) != 1 || gates[0].ConditionType != v1alpha1.ConditionAttached) {
			err = fmt.Errorf("the pod has the readiness gates %v", gates)
		}
		return err
	})
	create(ctx, t, pod, plain)
	if len(plain.Spec.ReadinessGates) > 0 {
		t.Errorf("a pod on no network has the readiness gates %v", plain.Spec.ReadinessGates)
	}
	const (
		attached          = `{"status":{"conditions":[{"type":"kubernetsn.io/attached","status":"True"}]}}`
		ready             = `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`
		elsewhere, nobody = "ktsn-agent on node gated-2 may not change pod gated, which is not there", "does not name its node"
		others, only      = "only the ktsn-agent of the pod's node may set the condition", "may change only the condition kubernetsn.io/attached"
		status            = "ktsn-agent may change only the status of a pod"
	)
	agent, second := agentOf(t, "gated-1"), agentOf(t, "gated-2")
	strategic := func(text string) client.Patch { return client.RawPatch(types.StrategicMergePatchType, []byte(text)) }
	set := func(by client.Client, pod *corev1.Pod, text string) error {
		return by.Status().Patch(ctx, pod.DeepCopy(), strategic(text), client.DryRunAll)
	}
	eventually(ctx, t, func() error { return refusalError(set(admin, pod, attached), others) })
	eventually(ctx, t, func() error { return refusalError(set(second, pod, attached), elsewhere) })
	for name, test := range map[string]struct {
		err      error
		sentence string
	}{
		"the agent of its node":               {set(agent, pod, attached), ""},
		"the agent of another node":           {set(second, pod, attached), elsewhere},
		"an agent of no node":                 {set(agentOf(t, ""), pod, attached), nobody},
		"another condition":                   {set(agent, pod, ready), only},
		"another condition of a plain pod":    {set(agent, plain, ready), only},
		"the phase":                           {set(agent, pod, `{"status":{"phase":"Failed"}}`), only},
		"an address":                          {set(agent, pod, `{"status":{"podIP":"192.0.2.1"}}`), only},
		"a label, by the status":              {set(agent, pod, `{"metadata":{"labels":{"a":"b"}}}`), only},
		"a finalizer, by the status":          {set(agent, pod, `{"metadata":{"finalizers":["a.example/b"]}}`), only},
		"the pod":                             {agent.Patch(ctx, pod.DeepCopy(), strategic(`{"metadata":{"labels":{"a":"b"}}}`), client.DryRunAll), status},
		"the pod's end":                       {agent.Delete(ctx, pod.DeepCopy(), client.DryRunAll), status},
		"others, another condition":           {set(admin, pod, ready), ""},
		"others, the condition of plain pods": {set(admin, plain, attached), ""},
	} {
		checkRefusal(t, name, test.err, test.sentence)
	}
	if err := set(agent, pod, `{"metadata":{"uid":"another"},`+attached[1:]); !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
		t.Errorf("the condition of another pod of the name: %v", err)
	}
	// kubelet and Multus change other parts of a status that has the condition, and cannot remove it.
	must(t, agent.Status().Patch(ctx, pod, strategic(attached)))
	checkRefusal(t, "others", set(admin, pod, ready), "")
	checkRefusal(t, "others, Multus' annotation", set(admin, pod, `{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/network-status":"[]"}}}`), "")
	checkRefusal(t, "others, False", set(admin, pod, strings.Replace(attached, "True", "False", 1)), others)
	checkRefusal(t, "others, no condition", set(admin, pod, `{"status":{"conditions":[{"$patch":"delete","type":"kubernetsn.io/attached"}]}}`), others)
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
