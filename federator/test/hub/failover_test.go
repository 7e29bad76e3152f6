// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"strings"
	"testing"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// specs returns the federator's policies by name.
func specs(t *testing.T) map[string]*policyv1alpha1.PropagationSpec {
	t.Helper()
	ours := client.MatchingLabels{federation.ManagedBy: federation.Manager}
	var policies policyv1alpha1.PropagationPolicyList
	var everywhere policyv1alpha1.ClusterPropagationPolicyList
	for _, list := range []client.ObjectList{&policies, &everywhere} {
		if err := admin.List(t.Context(), list, ours); err != nil {
			t.Fatal(err)
		}
	}
	specs := map[string]*policyv1alpha1.PropagationSpec{}
	for i := range policies.Items {
		specs[policies.Items[i].Name] = &policies.Items[i].Spec
	}
	for i := range everywhere.Items {
		specs[everywhere.Items[i].Name] = &everywhere.Items[i].Spec
	}
	return specs
}

func TestNoPolicyAsksForFailover(t *testing.T) {
	s := newServed(t, 2, nil)
	s.report(map[string]tsn.TSNServiceStatus{s.clusters[0]: wants(s.want("arm", "192.0.2.1")), s.clusters[1]: offers(s.offer("plc", "192.0.2.2"))})
	link := s.linked("arm", "plc")
	newNetwork(t, "firm", func(network *tsn.TSNNetwork) { network.Spec.Span = &tsn.Span{ClusterPrefixLength: 20} })
	name := unique("web")
	s.f.must(s.token, "POST", "/api/v1/workloads",
		federation.DeployRequest{Name: name, Namespace: s.namespace, Manifest: deployment(name), Clusters: s.clusters}, nil)
	for _, needed := range []string{name, "kubernetsn-hub", "kubernetsn-service-" + s.service, "kubernetsn-link-" + link.Name, "kubernetsn-network-firm"} {
		eventually(t, "there is policy "+needed, func() bool {
			for created := range specs(t) {
				if strings.HasPrefix(created, needed) {
					return true
				}
			}
			return false
		})
	}
	for name, spec := range specs(t) {
		if spec.Failover != nil || len(spec.Placement.ClusterTolerations) > 0 {
			t.Errorf("policy %s has Karmada evict: %+v, %+v", name, spec.Failover, spec.Placement.ClusterTolerations)
		}
	}
}

func TestRequestedFailoverIsKept(t *testing.T) {
	m := newMoved(t)
	m.k.heal(m.two)
	var policy policyv1alpha1.PropagationPolicy
	get(t, m.namespace, "web", &policy)
	asked := &policyv1alpha1.FailoverBehavior{Application: &policyv1alpha1.ApplicationFailoverBehavior{
		DecisionConditions: policyv1alpha1.DecisionConditions{TolerationSeconds: ptr.To[int32](60)}, PurgeMode: policyv1alpha1.PurgeModeGracefully,
	}}
	policy.Spec.Failover = asked
	if err := admin.Update(t.Context(), &policy); err != nil {
		t.Fatal(err)
	}
	m.f.must(m.token, "POST", "/api/v1/workloads", federation.DeployRequest{
		Name: "web", Namespace: m.namespace, Manifest: deployment("web"), Clusters: []string{m.workload},
	}, nil)
	m.begin(60)
	m.await(federation.MoveDone)
	get(t, m.namespace, "web", &policy)
	if !equality.Semantic.DeepEqual(policy.Spec.Failover, asked) {
		t.Errorf("after a deployment and a move it is %+v", policy.Spec.Failover)
	}
}
