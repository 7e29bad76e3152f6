// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

func TestPodsGetLinkLabels(t *testing.T) {
	s := newServed(t, 1, nil)
	request := federation.DeployRequest{Name: "w", Namespace: s.namespace, Manifest: deployment("web"), Clusters: s.clusters,
		Clients: map[string]string{s.service: "bus0"}}
	s.f.must(s.token, "POST", "/api/v1/workloads", request, nil)
	var createdDeployment appsv1.Deployment
	get(t, s.namespace, "web", &createdDeployment)
	if labels := createdDeployment.Spec.Template.Labels; labels[tsn.ClientLabelPrefix+s.service] != "bus0" || labels["app"] != "web" {
		t.Errorf("labels %v of pods", labels)
	}
	request.Name, request.Manifest, request.Clients = "e", deployment("plc"), nil
	request.Endpoints = map[string]string{s.service: "line"}
	s.f.must(s.token, "POST", "/api/v1/workloads", request, nil)
	get(t, s.namespace, "plc", &createdDeployment)
	if labels := createdDeployment.Spec.Template.Labels; labels[tsn.EndpointLabelPrefix+s.service] != "line" {
		t.Errorf("labels %v of pods", labels)
	}
}

func TestInvalidLinksAreRejected(t *testing.T) {
	s := newServed(t, 1, nil)
	stranger := newCluster(t, "Push")
	labelled := func(key, value string) string {
		return strings.Replace(deployment("web"), "metadata: {labels: {app: web}}", "metadata: {labels: {app: web, "+key+": "+value+"}}", 1)
	}
	client := map[string]string{s.service: "bus0"}
	for name, test := range map[string]struct {
		request federation.DeployRequest
		words   string
	}{
		"no such service":      {federation.DeployRequest{Clients: map[string]string{"nothing": "bus0"}}, "there is no TSNService nothing in namespace " + s.namespace},
		"a long name":          {federation.DeployRequest{Clients: map[string]string{s.service: "a-name-that-is-long"}}, "19 characters"},
		"no name of a service": {federation.DeployRequest{Clients: map[string]string{"UPPER": "bus0"}}, "cannot be a TSNService"},
		"another cluster":      {federation.DeployRequest{Clients: client, Clusters: []string{stranger}}, "is not on cluster " + stranger},
		"the manifest's label": {federation.DeployRequest{Manifest: labelled(tsn.ClientLabelPrefix+s.service, "bus0"), Clusters: []string{stranger}}, "is not on cluster " + stranger},
		"two names":            {federation.DeployRequest{Manifest: labelled(tsn.ClientLabelPrefix+s.service, "other"), Clients: client}, `with "other" in the manifest`},
		"no pods":              {federation.DeployRequest{Manifest: configMap("c"), Clients: client}, "no object in the manifest has pods"},
		"a service in it": {federation.DeployRequest{Manifest: "apiVersion: kubernetsn.io/v1alpha1\nkind: TSNService\nmetadata: {name: x}\nspec: {ipv4: {linkCIDR: 10.0.0.0/24}}\n"},
			"make a TSNService at the hub"},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			request := test.request
			request.Name, request.Namespace = "w", s.namespace
			if request.Manifest == "" {
				request.Manifest = deployment("web")
			}
			if request.Clusters == nil {
				request.Clusters = s.clusters
			}
			s.f.refused(s.token, "POST", "/api/v1/workloads", request, http.StatusUnprocessableEntity, test.words)
			s.f.refused(s.token, "GET", "/api/v1/workloads/"+s.namespace+"/w", nil, http.StatusNotFound)
		})
	}
}

func TestMoveWaitsForLinks(t *testing.T) {
	manifest := strings.Replace(deployment("web"), "metadata: {labels: {app: web}}", "metadata: {labels: {app: web, client.kubernetsn.io/bus: bus0}}", 1)
	m := newMovedOf(t, manifest)
	m.begin(60)
	m.k.heal(m.two)
	pod := `{"total":1,"ready":1,"pods":[{"name":"web-1","phase":"Running","ready":true,"links":[%]}]}`
	for _, step := range []struct{ links, words string }{
		{"", "no pod of Deployment web in cluster " + m.two + " has a link yet"},
		{`{"service":"bus","client":true,"interface":"bus0","up":false}`, "pod web-1 in cluster " + m.two + " has no link to service bus yet"},
		{`{"service":"bus","client":true,"interface":"bus0","peer":"west/ns/plc","up":false}`, "the link of pod web-1 in cluster " + m.two + " to west/ns/plc (service bus) is not up"},
	} {
		m.k.say(m.two, strings.Replace(pod, "%", step.links, 1))
		eventually(t, "what is awaited is told", func() bool {
			workload := m.state()
			return workload.Move.Phase == federation.MovePlacing && strings.Contains(workload.Move.Message, step.words)
		})
	}
	m.k.say(m.two, strings.Replace(pod, "%", `{"service":"bus","client":true,"interface":"bus0","peer":"west/ns/plc","up":true}`, 1))
	m.await(federation.MoveDone)
}

func TestMoveWithoutLinksIsReverted(t *testing.T) {
	manifest := strings.Replace(deployment("web"), "metadata: {labels: {app: web}}", "metadata: {labels: {app: web, client.kubernetsn.io/bus: bus0}}", 1)
	m := newMovedOf(t, manifest)
	m.k.heal(m.two)
	m.k.say(m.two, `{"total":1,"ready":1,"pods":[{"name":"web-1","phase":"Running","ready":true,"links":[{"service":"bus","client":true,"interface":"bus0","up":false}]}]}`)
	m.begin(5)
	workload := m.await(federation.MoveFailed)
	if len(workload.Clusters) != 1 || workload.Clusters[0] != m.workload || !strings.Contains(workload.Move.Message, "has no link to service bus yet; it stays on "+m.workload) {
		t.Errorf("it is on %v: %q", workload.Clusters, workload.Move.Message)
	}
}

func TestLinksAreListedWithRights(t *testing.T) {
	s := newServed(t, 2, nil)
	s.report(map[string]tsn.TSNServiceStatus{s.clusters[0]: wants(s.want("arm", "192.0.2.1")), s.clusters[1]: offers(s.offer("plc", "192.0.2.2"))})
	link := s.linked("arm", "plc")
	s.k.sayOf("TSNLink", link.Name, s.clusters[0], plugged(tsn.ConditionClientPlugged, tsn.ConditionUp))
	seer := newUser(t, s.namespace, []rbacv1.PolicyRule{{APIGroups: []string{"kubernetsn.io"}, Resources: []string{"tsnservices", "tsnlinks"}, Verbs: []string{"list"}}}, nil)
	var links federation.Links
	eventually(t, "the link is told", func() bool {
		links = federation.Links{}
		s.f.must(seer, "GET", "/api/v1/links?namespace="+s.namespace+"&service="+s.service, nil, &links)
		return len(links.Items) == 1 && links.Items[0].Up
	})
	got, want := links.Items[0], map[string]string{s.clusters[0]: "arm", s.clusters[1]: "plc"}
	if ends := map[string]string{got.Client.Cluster: got.Client.Pod, got.Endpoint.Cluster: got.Endpoint.Pod}; !maps.Equal(ends, want) || len(links.Services) != 1 {
		t.Errorf("told %+v", links)
	}
	s.f.must(seer, "GET", "/api/v1/links?namespace="+s.namespace+"&service=other", nil, &links)
	if len(links.Items)+len(links.Services) > 0 {
		t.Errorf("of a service that is not, told %+v", links)
	}
	s.f.refused(newUser(t, s.namespace, ofWorkload, nil), "GET", "/api/v1/links?namespace="+s.namespace, nil, http.StatusForbidden, "tsnservices")
	var events federation.Events
	eventually(t, "an event tells of it", func() bool {
		s.f.must(s.token, "GET", "/api/v1/events?namespace="+s.namespace, nil, &events)
		for _, event := range events.Items {
			if event.Reason == "Linked" && strings.Contains(event.Message, "pod "+s.namespace+"/arm of cluster "+s.clusters[0]+" is linked to") {
				return true
			}
		}
		return false
	})
}
