// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// served is a service over clusters of its own.
type served struct {
	t                         *testing.T
	f                         *running
	k                         *karmada
	token, namespace, service string
	clusters                  []string
}

// newServed creates a service on some new clusters. change may be nil.
func newServed(t *testing.T, clusters int, change func(*tsn.TSNService)) *served {
	t.Helper()
	needHub(t)
	s := &served{t: t, f: startFederator(t), token: newAdmin(t), namespace: newNamespace(t), service: unique("plant")}
	s.k = startKarmada(t, s.namespace)
	for range clusters {
		s.clusters = append(s.clusters, newCluster(t, v1alpha1.Pull))
	}
	s.make(s.service, change)
	return s
}

// make creates a service on the clusters, which is deleted with the test.
func (s *served) make(name string, change func(*tsn.TSNService)) {
	s.t.Helper()
	service := &tsn.TSNService{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	number := <-counter
	service.Spec.IPv4 = &tsn.LinkRange{LinkCIDR: fmt.Sprintf("10.%d.%d.0/24", 100+number/250, number%250)}
	service.Spec.Clusters = slices.Clone(s.clusters)
	if change != nil {
		change(service)
	}
	create(s.t, service)
	s.t.Cleanup(func() { _ = client.IgnoreNotFound(admin.Delete(context.Background(), service)) })
}

// rules returns the overrides by cluster and path.
func (s *served) rules() map[string]map[string]string {
	s.t.Helper()
	all := map[string]map[string]string{}
	var override policyv1alpha1.OverridePolicy
	if admin.Get(context.Background(), types.NamespacedName{Namespace: s.namespace, Name: "kubernetsn-service-" + s.service}, &override) != nil {
		return all
	}
	for _, rule := range override.Spec.OverrideRules {
		fields := map[string]string{}
		for _, field := range rule.Overriders.Plaintext {
			fields[field.Path] = string(field.Operator) + " " + string(field.Value.Raw)
		}
		all[rule.TargetCluster.ClusterNames[0]] = fields
	}
	return all
}

// parts waits until a number of clusters have a part.
func (s *served) parts(count int) map[string]map[string]string {
	s.t.Helper()
	var rules map[string]map[string]string
	eventually(s.t, "clusters have parts", func() bool { rules = s.rules(); return len(rules) == count })
	return rules
}

func (s *served) condition(kind string) metav1.Condition {
	s.t.Helper()
	var service tsn.TSNService
	get(s.t, s.namespace, s.service, &service)
	if condition := meta.FindStatusCondition(service.Status.Conditions, kind); condition != nil {
		return *condition
	}
	return metav1.Condition{}
}

// placedBy returns the clusters of a policy.
func (s *served) placedBy(policy string) []string {
	s.t.Helper()
	var placed policyv1alpha1.PropagationPolicy
	if admin.Get(context.Background(), types.NamespacedName{Namespace: s.namespace, Name: policy}, &placed) != nil {
		return nil
	}
	return placed.Spec.Placement.ClusterAffinity.ClusterNames
}

// report sets the clusters' reports about the service, as Karmada collects them. Clusters without a status report
// nothing.
func (s *served) report(statuses map[string]tsn.TSNServiceStatus) {
	s.t.Helper()
	for _, cluster := range s.clusters {
		status, has := statuses[cluster]
		if !has {
			s.k.sayOf("TSNService", s.service, cluster, nil)
			continue
		}
		status.Conditions = []metav1.Condition{{Type: tsn.ConditionReady, Status: metav1.ConditionTrue, Reason: tsn.ReasonAsAsked, LastTransitionTime: metav1.Now()}}
		s.k.sayOf("TSNService", s.service, cluster, status)
	}
}

func TestServiceIsDividedAmongClusters(t *testing.T) {
	s := newServed(t, 2, func(service *tsn.TSNService) {
		service.Spec.IPv4.LinkCIDR, service.Spec.IPv6 = "10.98.0.0/16", &tsn.LinkRange{LinkCIDR: "fd98::/64"}
	})
	stranger := newCluster(t, v1alpha1.Pull)
	rules := s.parts(2)
	for number, cluster := range s.clusters {
		want := []map[string]string{{
			"/spec/clusters": "remove ", "/spec/ipv4/part": `add "10.98.2.0/23"`, "/spec/ipv6/part": `add "fd98::200:0:0:0/71"`,
			"/spec/vnis": `add {"first":8388608,"last":8454143}`,
		}, {
			"/spec/clusters": "remove ", "/spec/ipv4/part": `add "10.98.4.0/23"`, "/spec/ipv6/part": `add "fd98::400:0:0:0/71"`,
			"/spec/vnis": `add {"first":8454144,"last":8519679}`,
		}}[number]
		if !maps.Equal(rules[cluster], want) {
			t.Errorf("%s has %v, want %v", cluster, rules[cluster], want)
		}
	}
	eventually(t, "it is on both and on no other", func() bool { return slices.Equal(s.placedBy("kubernetsn-service-"+s.service), s.clusters) })
	if _, has := rules[stranger]; has {
		t.Error("a cluster that it does not name has a part")
	}
	s.report(map[string]tsn.TSNServiceStatus{s.clusters[0]: {Endpoints: 2, Clients: 1, Linked: 1}, s.clusters[1]: {Clients: 3}})
	eventually(t, "what clusters say is summed", func() bool {
		var service tsn.TSNService
		get(t, s.namespace, s.service, &service)
		return service.Status.Endpoints == 2 && service.Status.Clients == 4 && service.Status.Linked == 1 && s.condition(tsn.ConditionReady).Status == metav1.ConditionTrue
	})
}

func TestMemberKeepsPartOfService(t *testing.T) {
	s := newServed(t, 3, nil)
	before := s.parts(3)
	var service tsn.TSNService
	eventually(t, "the service is written", func() bool {
		get(t, s.namespace, s.service, &service)
		service.Spec.Clusters = s.clusters[1:]
		return admin.Update(t.Context(), &service) == nil
	})
	eventually(t, "it is on two", func() bool { return slices.Equal(s.placedBy("kubernetsn-service-"+s.service), s.clusters[1:]) })
	for cluster, fields := range s.parts(3) {
		if !maps.Equal(fields, before[cluster]) {
			t.Errorf("%s has %v, before %v", cluster, fields, before[cluster])
		}
	}
	if err := admin.Delete(t.Context(), &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: s.clusters[0]}}); err != nil {
		t.Fatal(err)
	}
	s.parts(2)
}

func TestServiceRangeIsUsedUp(t *testing.T) {
	s := newServed(t, 4, func(service *tsn.TSNService) { service.Spec.IPv4.LinkCIDR = "10.97.0.0/28" })
	s.parts(3)
	eventually(t, "the condition names the cluster and says what to do", func() bool {
		degraded := s.condition(tsn.ConditionDegraded)
		return degraded.Reason == tsn.ReasonRangeUsedUp && strings.Contains(degraded.Message, "none is left for "+s.clusters[3]) &&
			strings.Contains(degraded.Message, "linkCIDR 10.97.0.0/28 has parts for 3 clusters") && strings.Contains(degraded.Message, "another TSNService with a larger range")
	})
	eventually(t, "it is on the others", func() bool { return slices.Equal(s.placedBy("kubernetsn-service-"+s.service), s.clusters[:3]) })
}

func TestConflictingServiceIsBlocked(t *testing.T) {
	s := newServed(t, 1, func(service *tsn.TSNService) { service.Spec.IPv4.LinkCIDR = "10.96.0.0/16" })
	s.parts(1)
	older := s.service
	newNetwork(t, "line", func(network *tsn.TSNNetwork) { network.Spec.IPv4.CIDR = "10.95.0.0/16" })
	for cidr, words := range map[string]string{
		"10.96.3.0/24": "TSNService " + s.namespace + "/" + older + " has addresses of the same range, 10.96.0.0/16, and takes precedence over this service",
		"10.95.3.0/24": "has addresses of the same range, 10.95.0.0/16, and takes precedence over this service",
	} {
		// Created in the same second; by name it is younger.
		s.service = unique("younger")
		s.make(s.service, func(service *tsn.TSNService) { service.Spec.IPv4.LinkCIDR = cidr })
		eventually(t, "the condition says so", func() bool {
			ready := s.condition(tsn.ConditionReady)
			return ready.Status == metav1.ConditionFalse && ready.Reason == tsn.ReasonOverlaps && strings.Contains(ready.Message, words)
		})
		if placed := s.placedBy("kubernetsn-service-" + s.service); placed != nil {
			t.Errorf("it is on %v", placed)
		}
	}
}

// A tenant can create a service, and an administrator creates networks: the older service does not block the network.
func TestNetworksTakePrecedenceOverServices(t *testing.T) {
	s := newServed(t, 1, func(service *tsn.TSNService) { service.Spec.IPv4.LinkCIDR = "10.92.0.0/16" })
	s.parts(1)
	n := &stretched{t: t, f: s.f, token: s.token, fleet: unique("fleet")}
	n.network = newNetwork(t, "line", func(network *tsn.TSNNetwork) {
		network.Spec.IPv4.CIDR, network.Spec.Span = "10.92.0.0/20", &tsn.Span{ClusterPrefixLength: 21}
	})
	eventually(t, "the service is blocked", func() bool {
		ready := s.condition(tsn.ConditionReady)
		return ready.Reason == tsn.ReasonOverlaps && strings.Contains(ready.Message, "TSNNetwork "+n.network)
	})
	eventually(t, "the network is looked at, and not blocked", func() bool {
		ready := n.condition(tsn.ConditionReady)
		return ready.Reason != "" && ready.Reason != tsn.ReasonOverlaps
	})
}

func TestServiceNamesUnknownClusters(t *testing.T) {
	s := newServed(t, 1, func(service *tsn.TSNService) { service.Spec.Clusters = append(service.Spec.Clusters, "nowhere") })
	s.parts(1)
	eventually(t, "the condition names it", func() bool {
		degraded := s.condition(tsn.ConditionDegraded)
		return degraded.Reason == "ClusterUnknown" && strings.Contains(degraded.Message, "names what is no member: nowhere")
	})
}

func TestForeignPoliciesBlockService(t *testing.T) {
	s := newServed(t, 0, nil)
	foreign := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "kubernetsn-service-foreign"}}
	foreign.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{}
	create(t, foreign)
	s.clusters, s.service = []string{newCluster(t, v1alpha1.Pull)}, "foreign"
	s.make(s.service, nil)
	eventually(t, "the condition says so", func() bool {
		return strings.Contains(s.condition(tsn.ConditionReady).Message, "created by somebody else")
	})
	if placed := s.placedBy("kubernetsn-service-" + s.service); placed != nil {
		t.Errorf("it is on %v", placed)
	}
}
