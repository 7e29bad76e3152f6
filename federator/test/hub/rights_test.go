// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// chartObjects returns the objects of a template of the chart.
func chartObjects(t *testing.T, template string, options ...string) (all []*unstructured.Unstructured) {
	t.Helper()
	const helm = "../../../bin/helm"
	if _, err := os.Stat(helm); err != nil {
		testlab.Missing(t, "bin/helm is missing; `make helm` builds it")
	}
	arguments := []string{"template", "x", "../../../charts/federator", "--kube-version", "1.34.0", "--set", "program.enabled=false", "--show-only", "templates/" + template}
	text, err := exec.CommandContext(t.Context(), helm, append(arguments, options...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(part, object); err != nil {
			t.Fatal(err)
		}
		all = append(all, object)
	}
	return all
}

// chartRights creates the federator's rights of the chart at the hub, and returns a configuration with them.
func chartRights(t *testing.T) *rest.Config {
	t.Helper()
	for _, object := range chartObjects(t, "hub-rights.yaml") {
		if err := admin.Create(context.Background(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	createdConfig := rest.AnonymousClientConfig(config)
	createdConfig.BearerToken = tokenFor(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "ktsn-federator"}})
	return createdConfig
}

func TestChartRightsSuffice(t *testing.T) {
	needHub(t)
	admins := config
	config = chartRights(t)
	s := newStretched(t, nil)
	m := &moved{t: t, f: s.f, token: s.token, workload: s.member(), two: s.member(), namespace: newNamespace(t)}
	config = admins
	var joined federation.Joined
	agent := unique("agent")
	s.f.must(s.token, "POST", "/api/v1/clusters", federation.JoinRequest{Name: agent, ID: agent}, &joined)
	signed := sign(t, agent, false)
	s.f.must(joined.Bootstrap.Token, "POST", "/api/v1/clusters/"+agent+"/certificate",
		federation.CertificateRequest{Request: request(t, "system:karmada:agent:"+agent, federation.AgentGroup)}, nil)
	<-signed
	m.k = startKarmada(t, m.namespace, m.workload, m.two)
	s.parts(2)
	m.f.must(m.token, "POST", "/api/v1/workloads",
		federation.DeployRequest{Name: "web", Namespace: m.namespace, Manifest: deployment("web"), Clusters: []string{m.workload}}, nil)
	m.begin(60)
	if workload := m.await(federation.MoveDone); !slices.Equal(workload.Clusters, []string{m.two}) {
		t.Errorf("it is on %v", workload.Clusters)
	}
	m.f.must(m.token, "DELETE", m.path(), nil, nil)
	eventually(t, "the cluster has a profile", func() bool {
		var profile unstructured.Unstructured
		profile.SetAPIVersion("multicluster.x-k8s.io/v1alpha1")
		profile.SetKind("ClusterProfile")
		return admin.Get(t.Context(), types.NamespacedName{Namespace: system, Name: m.workload}, &profile) == nil
	})
	linkOnce(t, s.f, s.token)
	for _, words := range []string{"forbidden", "level=ERROR"} {
		if text := m.f.log.String(); bytes.Contains([]byte(text), []byte(words)) {
			t.Errorf("the log has %q: %s", words, text)
		}
	}
}

// linkOnce links pods of two clusters, and removes the link again.
func linkOnce(t *testing.T, f *running, token string) {
	t.Helper()
	l := &served{t: t, f: f, token: token, namespace: newNamespace(t), service: unique("plant")}
	l.clusters = []string{newCluster(t, v1alpha1.Pull), newCluster(t, v1alpha1.Pull)}
	l.k = startKarmada(t, l.namespace)
	l.make(l.service, nil)
	// Other tests have nodes with the usual addresses, and an address belongs to one cluster.
	endpoint := offers(l.offer("plc", "198.51.100.2"))
	l.report(map[string]tsn.TSNServiceStatus{l.clusters[0]: wants(l.want("arm", "198.51.100.1")), l.clusters[1]: endpoint})
	link := l.linked("arm", "plc")
	l.k.sayOf("TSNLink", link.Name, l.clusters[0], plugged(tsn.ConditionUp))
	eventually(t, "the link is up", func() bool { return l.isTrue(tsn.ConditionUp) })
	l.report(map[string]tsn.TSNServiceStatus{l.clusters[0]: {}, l.clusters[1]: endpoint})
	eventually(t, "the link is gone", func() bool { return len(l.links()) == 0 })
}

// TestServiceRangesAreLimited checks the limits for users who may create TSNServices in a namespace of the hub: the
// federator gives these to all clusters.
func TestServiceRangesAreLimited(t *testing.T) {
	needHub(t)
	// No other test has services there: a deleted policy still applies for a moment.
	for _, object := range chartObjects(t, "hub-services.yaml", "--set", "links.reservedRanges={10.64.0.0/12}") {
		create(t, object)
		t.Cleanup(func() {
			if err := admin.Delete(context.Background(), object); err != nil {
				t.Error(err)
			}
		})
	}
	namespace := newNamespace(t)
	try := func(cidr, route string) string {
		service := &tsn.TSNService{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "plant"}, Spec: tsn.TSNServiceSpec{
			IPv4: &tsn.LinkRange{LinkCIDR: cidr}, Routes: []tsn.ServiceRoute{{To: route}}}}
		if err := admin.Create(t.Context(), service, client.DryRunAll); err != nil {
			return err.Error()
		}
		return ""
	}
	eventually(t, "the policy holds", func() bool { return try("0.0.0.0/0", "10.9.0.0/16") != "" })
	for _, test := range []struct{ cidr, route, says string }{
		{"10.60.0.0/16", "192.168.7.0/24", ""},
		{"0.0.0.0/0", "10.9.0.0/16", "linkCIDR 0.0.0.0/0 is in none of the ranges that links may have here (value links.allowedRanges of the chart federator"},
		{"10.60.0.0/16", "0.0.0.0/1", "route 0.0.0.0/1 is in none of the ranges"},
		{"10.64.0.0/24", "10.9.0.0/16", "10.64.0.0/24 has addresses that are reserved here"},
		{"10.60.0.0/16", "10.64.0.10/32", "10.64.0.10/32 has addresses that are reserved here"},
	} {
		if text := try(test.cidr, test.route); (text == "") != (test.says == "") || !strings.Contains(text, test.says) {
			t.Errorf("a service of %s with a route to %s: %q, want %q", test.cidr, test.route, text, test.says)
		}
	}
}
