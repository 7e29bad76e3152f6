// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

const controlPlane = "node-role.kubernetes.io/control-plane"

// TestOperatorsPreferTheControlPlane: root on the node of an operator has the cluster's signing key.
func TestOperatorsPreferTheControlPlane(t *testing.T) {
	placed := func(arguments ...string) *corev1.PodSpec {
		t.Helper()
		objects, err := render(t, arguments...)
		if err != nil {
			t.Fatal(err)
		}
		var deployment appsv1.Deployment
		object(t, objects, "Deployment", "ktsn-operator", &deployment)
		return &deployment.Spec.Template.Spec
	}
	spec := placed()
	preferred := spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(preferred) != 1 || preferred[0].Preference.MatchExpressions[0].Key != controlPlane || len(spec.NodeSelector) != 1 {
		t.Errorf("operators prefer %+v, of nodes %v", preferred, spec.NodeSelector)
	}
	if len(spec.Tolerations) != 1 || spec.Tolerations[0].Key != controlPlane || spec.Tolerations[0].Effect != corev1.TaintEffectNoSchedule {
		t.Errorf("operators tolerate %+v", spec.Tolerations)
	}
	spec = placed("--set-json", `operator={"nodeSelector":{"trusted":"yes"},"tolerations":[],"affinity":{"nodeAffinity":null}}`)
	if spec.NodeSelector["trusted"] != "yes" || spec.NodeSelector["kubernetes.io/os"] != "linux" || len(spec.Tolerations) > 0 || spec.Affinity != nil {
		t.Errorf("operators run on %v, tolerate %+v, prefer %+v", spec.NodeSelector, spec.Tolerations, spec.Affinity)
	}
}
