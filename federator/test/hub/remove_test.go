// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"net/http"
	"testing"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

func TestFailedDeletionChangesNothing(t *testing.T) {
	f, token, cluster, namespace := startFederator(t), newAdmin(t), newCluster(t, "Push"), newNamespace(t)
	request := federation.DeployRequest{Name: "web", Namespace: namespace, Manifest: deployment("web"), Clusters: []string{cluster}}
	f.must(token, "POST", "/api/v1/workloads", request, nil)
	asItWas := func() {
		t.Helper()
		var policy policyv1alpha1.PropagationPolicy
		get(t, namespace, "web", &policy)
		get(t, namespace, "web", &appsv1.Deployment{})
		if !ptr.Deref(policy.Spec.PreserveResourcesOnDeletion, false) || policy.Annotations[federation.DeletingAnnotation] != "" {
			t.Errorf("the policy is %+v %v", policy.Spec, policy.Annotations)
		}
		f.must(token, "POST", "/api/v1/workloads", request, nil)
	}
	// The user may delete policies, but not Deployments.
	user := newUser(t, namespace, []rbacv1.PolicyRule{
		{APIGroups: []string{"policy.karmada.io"}, Resources: []string{"propagationpolicies"}, Verbs: []string{"*"}},
		{APIGroups: []string{"apps", "kubernetsn.io", "work.karmada.io"}, Resources: []string{"*"}, Verbs: []string{"get"}},
	}, nil)
	f.refused(user, "DELETE", "/api/v1/workloads/"+namespace+"/web", nil, http.StatusForbidden, "deployments")
	asItWas()
	// Karmada does not react to the deletion.
	deaf := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-deployment", Labels: map[string]string{
		workv1alpha2.ResourceBindingPermanentIDLabel: namespace}}}
	deaf.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: "web"}
	deaf.Spec.PreserveResourcesOnDeletion = ptr.To(true)
	create(t, deaf)
	f.refused(token, "DELETE", "/api/v1/workloads/"+namespace+"/web", nil, http.StatusGatewayTimeout, "nothing was removed")
	asItWas()
}
