// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"strings"
	"testing"

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
	for name, test := range map[string]struct {
		pod      client.Object
		sentence string
	}{
		"of an unknown network":         {onNetwork("pod", "default", "nowhere", ""), "there is no TSNNetwork nowhere"},
		"of a namespace that may not":   {onNetwork("pod", "hook-tenant-b", "hook-closed", ""), "pods of namespace hook-tenant-b may not be on TSNNetwork hook-closed: its spec.namespaceSelector (tenant=a)"},
		"with an annotation that is no": {onNetwork("pod", "default", "A/b", ""), `"A/b" is no name`},
	} {
		t.Run(name, func(t *testing.T) {
			err := admin.Create(ctx, test.pod, client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), test.sentence) {
				t.Errorf("got %v, want %q", err, test.sentence)
			}
		})
	}
	create(ctx, t, newNamespace("hook-tenant-a", map[string]string{"tenant": "a"}))
	if err := admin.Create(ctx, onNetwork("pod", "hook-tenant-a", "hook-closed", ""), client.DryRunAll); err != nil {
		t.Errorf("a pod of a namespace that may is refused: %v", err)
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
