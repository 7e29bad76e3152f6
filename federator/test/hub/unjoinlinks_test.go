// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// newLinked links pod arm of the first cluster to pod plc of the second; the third has an endpoint, too.
func newLinked(t *testing.T) (s *served, link tsn.TSNLink) {
	t.Helper()
	s, statuses, link := newSolelyLinked(t)
	statuses[s.clusters[2]] = offers(s.offer("spare", "192.0.2.3"))
	s.report(statuses)
	return s, link
}

// newSolelyLinked links pod arm of the first cluster to pod plc of the second, which is the only endpoint.
func newSolelyLinked(t *testing.T) (s *served, statuses map[string]tsn.TSNServiceStatus, link tsn.TSNLink) {
	t.Helper()
	return newSolelyLinkedOf(t, nil)
}

func newSolelyLinkedOf(t *testing.T, change func(*tsn.TSNService)) (s *served, statuses map[string]tsn.TSNServiceStatus, link tsn.TSNLink) {
	t.Helper()
	s = newServed(t, 3, change)
	statuses = map[string]tsn.TSNServiceStatus{
		s.clusters[0]: wants(s.want("arm", "192.0.2.1")), s.clusters[1]: offers(s.offer("plc", "192.0.2.2")), s.clusters[2]: {},
	}
	s.report(statuses)
	link = s.linked("arm", "plc")
	s.given(&link, s.clusters[0])
	s.given(&link, s.clusters[1])
	return s, statuses, link
}

// given waits until a cluster was given a link, and returns its Work.
func (s *served) given(link *tsn.TSNLink, cluster string) *workv1alpha1.Work {
	s.t.Helper()
	work := &workv1alpha1.Work{}
	work.Namespace, work.Name = "karmada-es-"+cluster, s.namespace+"."+link.Name+"-tsnlink"
	eventually(s.t, cluster+" has the link", func() bool { return admin.Get(s.t.Context(), client.ObjectKeyFromObject(work), work) == nil })
	return work
}

// leave removes a cluster and returns the response.
func (s *served) leave(cluster string) string {
	s.t.Helper()
	var unjoined federation.Unjoined
	s.f.must(s.token, "DELETE", "/api/v1/clusters/"+cluster, nil, &unjoined)
	return unjoined.Message
}

func TestUnjoinReplacesEndpointsFirst(t *testing.T) {
	s, _ := newLinked(t)
	if text := s.leave(s.clusters[1]); strings.Contains(text, "TSNLinks") {
		t.Errorf("says %s", text)
	}
	// Before the cluster has left, not after.
	if removed, kept := s.k.becameOfLinks(); !slices.Contains(removed, s.clusters[1]) || len(kept) > 0 {
		t.Errorf("%v removed the link, and %v kept it", removed, kept)
	}
	s.linked("arm", "spare")
}

func TestUnjoinRemovesLinkOfOnlyEndpoint(t *testing.T) {
	s, _, _ := newSolelyLinked(t)
	if text := s.leave(s.clusters[1]); strings.Contains(text, "TSNLinks") {
		t.Errorf("says %s", text)
	}
	if removed, kept := s.k.becameOfLinks(); !slices.Contains(removed, s.clusters[1]) || len(kept) > 0 {
		t.Errorf("%v removed the link, and %v kept it", removed, kept)
	}
	if links := s.links(); len(links) > 0 {
		t.Errorf("there are %v", links)
	}
}

// TestUnjoinRemovesLinksOfBlockedService lets an older network grow into the range of the service.
func TestUnjoinRemovesLinksOfBlockedService(t *testing.T) {
	needHub(t)
	line := newNetwork(t, "line", func(network *tsn.TSNNetwork) { network.Spec.IPv4.CIDR = "10.88.0.0/17" })
	s, _, link := newSolelyLinkedOf(t, func(service *tsn.TSNService) { service.Spec.IPv4.LinkCIDR = "10.88.128.0/24" })
	var network tsn.TSNNetwork
	get(t, "", line, &network)
	network.Spec.IPv4.CIDR = "10.88.0.0/16"
	if err := admin.Update(t.Context(), &network); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the service is blocked", func() bool { return s.condition(tsn.ConditionReady).Reason == tsn.ReasonOverlaps })
	s.stays(&link)
	if text := s.leave(s.clusters[1]); strings.Contains(text, "TSNLinks") {
		t.Errorf("says %s", text)
	}
	if removed, kept := s.k.becameOfLinks(); !slices.Contains(removed, s.clusters[1]) || len(kept) > 0 {
		t.Errorf("%v removed the link, and %v kept it", removed, kept)
	}
	if links := s.links(); len(links) > 0 {
		t.Errorf("there are %v", links)
	}
}

func TestUnjoinRemovesLinksOfClients(t *testing.T) {
	s, _ := newLinked(t)
	s.leave(s.clusters[0])
	if removed, kept := s.k.becameOfLinks(); !slices.Contains(removed, s.clusters[0]) || len(kept) > 0 {
		t.Errorf("%v removed the link, and %v kept it", removed, kept)
	}
	s.removed(s.clusters[0], s.clusters[1])
	if links := s.links(); len(links) > 0 {
		t.Errorf("there are %v", links)
	}
}

func TestUnjoinReportsKeptLinks(t *testing.T) {
	s, link := newLinked(t)
	work := s.given(&link, s.clusters[1])
	work.Finalizers = []string{"karmada.io/execution-controller"}
	if err := admin.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	text := s.leave(s.clusters[1])
	for _, words := range []string{"remove there, if it has them, the TSNLinks " + s.namespace + "/" + link.Name, "kubectl delete tsnlinks -A -l kubernetsn.io/link-maker=federator"} {
		if !strings.Contains(text, words) {
			t.Errorf("does not say %q: %s", words, text)
		}
	}
	s.linked("arm", "spare")
}

func TestUnjoinWithoutRightsRemovesNoLink(t *testing.T) {
	s, link := newLinked(t)
	user := func(verbs ...string) string {
		return newUser(t, s.namespace, nil, []rbacv1.PolicyRule{
			{APIGroups: []string{"cluster.karmada.io"}, Resources: []string{"clusters"}, Verbs: verbs},
			{APIGroups: []string{"policy.karmada.io"}, Resources: []string{"propagationpolicies"}, Verbs: []string{"list"}},
			{APIGroups: []string{"work.karmada.io"}, Resources: []string{"works"}, Verbs: []string{"*"}},
		})
	}
	path := "/api/v1/clusters/" + s.clusters[1]
	s.f.refused(user("get", "patch"), "DELETE", path, nil, http.StatusForbidden, "cannot delete resource")
	s.f.refused(user("get", "delete"), "DELETE", path, nil, http.StatusForbidden, "cannot patch resource")
	for _, verbs := range [][]string{{"get", "patch"}, {"list"}} { // of Works
		s.f.refused(newUser(t, s.namespace, nil, []rbacv1.PolicyRule{
			{APIGroups: []string{"cluster.karmada.io"}, Resources: []string{"clusters"}, Verbs: []string{"get", "delete", "patch"}},
			{APIGroups: []string{"policy.karmada.io"}, Resources: []string{"propagationpolicies"}, Verbs: []string{"list"}},
			{APIGroups: []string{"work.karmada.io"}, Resources: []string{"works"}, Verbs: verbs},
		}), "DELETE", path, nil, http.StatusForbidden, `resource "works"`)
	}
	s.stays(&link)
	var cluster v1alpha1.Cluster
	get(t, "", s.clusters[1], &cluster)
	if len(cluster.Annotations) > 0 {
		t.Errorf("it has the annotations %v", cluster.Annotations)
	}
}

func TestInterruptedUnjoinIsUndone(t *testing.T) {
	s, link := newLinked(t)
	work := s.given(&link, s.clusters[1])
	work.Finalizers = []string{"karmada.io/execution-controller"} // so that the link is not removed
	if err := admin.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan error, 1)
	go func() {
		request, err := http.NewRequestWithContext(ctx, http.MethodDelete, s.f.address+"/api/v1/clusters/"+s.clusters[1], nil)
		if err == nil {
			request.Header.Set("Authorization", "Bearer "+s.token)
			var answer *http.Response
			if answer, err = http.DefaultClient.Do(request); err == nil {
				answer.Body.Close()
			}
		}
		ended <- err
	}()
	var cluster v1alpha1.Cluster
	leaving := func() bool {
		get(t, "", s.clusters[1], &cluster)
		return cluster.Annotations[federation.LeavingAnnotation] != ""
	}
	eventually(t, "the cluster shall leave", leaving)
	interrupt()
	if err := <-ended; err == nil {
		t.Error("the request was answered")
	}
	eventually(t, "the cluster shall not leave any more", func() bool { return !leaving() })
	if cluster.DeletionTimestamp != nil {
		t.Error("it leaves")
	}
}

func TestLeavingClusterGetsNothingNew(t *testing.T) {
	f, token, name, namespace := startFederator(t), newAdmin(t), newCluster(t, "Push"), newNamespace(t)
	var cluster v1alpha1.Cluster
	get(t, "", name, &cluster)
	// As if the federator was killed in between.
	cluster.Annotations = map[string]string{federation.LeavingAnnotation: "true"}
	if err := admin.Update(t.Context(), &cluster); err != nil {
		t.Fatal(err)
	}
	request := federation.DeployRequest{Name: "web", Namespace: namespace, Manifest: deployment("web"), Clusters: []string{name}}
	f.refused(token, "POST", "/api/v1/workloads", request, http.StatusConflict, "cluster "+name+" is being removed")
	var clusters federation.Clusters
	f.must(token, "GET", "/api/v1/clusters", nil, &clusters)
	if !slices.ContainsFunc(clusters.Items, func(cluster federation.Cluster) bool { return cluster.Name == name && cluster.Leaving }) {
		t.Errorf("told %+v", clusters)
	}
	f.must(token, "DELETE", "/api/v1/clusters/"+name, nil, nil)
}
