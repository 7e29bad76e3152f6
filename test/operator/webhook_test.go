// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

func TestAnnotatedPod(t *testing.T) {
	ctx := needOperator(t)
	create(ctx, t, newNetwork("hook-a", 101, "10.101.0.0/16"), newNetwork("hook-b", 102, "10.102.0.0/16"))
	pod := onNetwork("pod", "default", "hook-a,hook-b", "")
	create(ctx, t, pod) // at once: the operator's cache need not know of the networks yet
	if got := pod.Annotations["k8s.v1.cni.cncf.io/networks"]; got != "hook-a@tsn0,hook-b@tsn1" {
		t.Errorf("it is attached to %q", got)
	}
	volume, container := pod.Spec.Volumes[len(pod.Spec.Volumes)-1], pod.Spec.Containers[0]
	if volume.CSI == nil || volume.CSI.Driver != v1alpha1.CSIDriver || len(container.Env) != 1 || container.Env[0].Name != "LD_PRELOAD" ||
		container.VolumeMounts[len(container.VolumeMounts)-1].MountPath != "/run/ktsn" || pod.Labels[v1alpha1.PodLabel] == "" {
		t.Errorf("the pod is %+v, %v", pod.Spec, pod.Labels)
	}
}

func TestRefusedPods(t *testing.T) {
	ctx := needOperator(t)
	closed := newNetwork("hook-closed", 103, "10.103.0.0/16")
	closed.Spec.NamespaceSelector = selector("tenant", "a")
	create(ctx, t, closed, newNamespace("hook-tenant-b", map[string]string{"tenant": "b"}))
	overlapping := newNetwork("hook-services", 105, "10.0.0.0/20") // of the API server's ServiceCIDR
	create(ctx, t, overlapping)
	condition(ctx, t, overlapping, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonOverlaps, "its range 10.0.0.0/20 overlaps", "the cluster's Services")
	onARM, static := onNetwork("pod", "default", "hook-closed", ""), onNetwork("pod", "hook-tenant-a", "hook-closed", "")
	onARM.Spec.NodeSelector = map[string]string{corev1.LabelArchStable: "arm64"}
	static.Annotations["k8s.v1.cni.cncf.io/networks"] = `[{"name": "hook-closed", "ips": ["10.104.0.7/16"]}]`
	onARM.Namespace = "hook-tenant-a"
	create(ctx, t, newNamespace("hook-tenant-a", map[string]string{"tenant": "a"}))
	for name, test := range map[string]struct {
		pod      client.Object
		sentence string
	}{
		"on a network with a range of Services": {onNetwork("pod", "default", "hook-services", ""), "TSNNetwork hook-services accepts no pods (Overlaps): its range 10.0.0.0/20"},
		"for nodes that are not x86-64":         {onARM, "the pod has the nodeSelector kubernetes.io/arch: arm64"},
		"with an address of another range":      {static, `requests the address "10.104.0.7/16" on TSNNetwork hook-closed, which is not in its ranges`},
		"of an unknown network":                 {onNetwork("pod", "default", "nowhere", ""), "there is no TSNNetwork nowhere"},
		"of a namespace that may not":           {onNetwork("pod", "hook-tenant-b", "hook-closed", ""), "pods of namespace hook-tenant-b may not be on TSNNetwork hook-closed: its spec.namespaceSelector (tenant=a)"},
		"with an annotation that is no":         {onNetwork("pod", "default", "A/b", ""), `"A/b" is no name`},
	} {
		t.Run(name, func(t *testing.T) {
			err := admin.Create(ctx, test.pod, client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), test.sentence) {
				t.Errorf("got %v, want %q", err, test.sentence)
			}
		})
	}
	if err := admin.Create(ctx, onNetwork("pod", "hook-tenant-a", "hook-closed", ""), client.DryRunAll); err != nil {
		t.Errorf("a pod of a namespace that may is refused: %v", err)
	}
}

// warningsOf collects warnings of the API server.
type warningsOf struct{ texts []string }

func (w *warningsOf) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

func TestWarnedPod(t *testing.T) {
	ctx := needOperator(t)
	warnings := &warningsOf{}
	listening := rest.CopyConfig(config)
	listening.WarningHandler = warnings
	pod := plainPod("typo", "default")
	pod.Annotations = map[string]string{"kubernetsn.io/netwrok": "tsn"} //nolint:misspell // a typo
	must(t, clientFor(t, listening).Create(ctx, pod, client.DryRunAll))
	if len(warnings.texts) != 1 || !strings.Contains(warnings.texts[0], "did you mean kubernetsn.io/network?") || pod.Labels[v1alpha1.PodLabel] != "" {
		t.Errorf("the warnings are %q, and the pod has %v", warnings.texts, pod.Labels)
	}
}

func TestUnreachableWebhook(t *testing.T) {
	ctx := needOperator(t)
	port, err := freePort(ctx)
	must(t, err)
	away := webhookConfiguration("away", port)
	away.Webhooks[0].NamespaceSelector = selector("kubernetes.io/metadata.name", "hook-away")
	create(ctx, t, newNetwork("hook-c", 104, "10.104.0.0/16"), newNamespace("hook-away", nil), away)
	eventually(ctx, t, func() error {
		if err := admin.Create(ctx, onNetwork("pod", "hook-away", "hook-c", ""), client.DryRunAll); err == nil {
			return errNotYet
		}
		return nil
	})
	if err := admin.Create(ctx, plainPod("plain", "hook-away"), client.DryRunAll); err != nil {
		t.Errorf("a pod without the annotation is refused: %v", err)
	}
}
