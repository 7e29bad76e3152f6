// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
	"github.com/kubernetsn/kubernetsn/internal/shared/testenv"
)

// chartRights makes what the chart gives the federator at the hub, and returns how it reaches the hub with that.
func chartRights(t *testing.T) *rest.Config {
	t.Helper()
	const helm = "../../../bin/helm"
	if _, err := os.Stat(helm); err != nil {
		testenv.Missing(t, "bin/helm is missing; `make helm` builds it")
	}
	text, err := exec.CommandContext(t.Context(), helm, "template", "x", "../../../charts/federator", "--kube-version", "1.34.0", "--set", "program.enabled=false",
		"--show-only", "templates/hub-rights.yaml").Output()
	if err != nil {
		t.Fatal(err)
	}
	for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(part, object); err != nil {
			t.Fatal(err)
		}
		if err := admin.Create(context.Background(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	made := rest.AnonymousClientConfig(config)
	made.BearerToken = tokenFor(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "ktsn-federator"}})
	return made
}

func TestTheRightsThatTheChartGivesAreEnough(t *testing.T) {
	needHub(t)
	admins := config
	config = chartRights(t)
	s := newStretched(t, nil)
	m := &moved{t: t, f: s.f, token: s.token, one: s.member(), two: s.member(), namespace: newNamespace(t)}
	config = admins
	var joined federation.Joined
	agent := unique("agent")
	s.f.must(s.token, "POST", "/api/v1/clusters", federation.JoinRequest{Name: agent, ID: agent}, &joined)
	signed := sign(t, agent, false)
	s.f.must(joined.Bootstrap.Token, "POST", "/api/v1/clusters/"+agent+"/certificate",
		federation.CertificateRequest{Request: request(t, "system:karmada:agent:"+agent, federation.AgentGroup)}, nil)
	<-signed
	m.k = startKarmada(t, m.namespace, m.one, m.two)
	s.parts(2)
	m.f.must(m.token, "POST", "/api/v1/workloads",
		federation.DeployRequest{Name: "web", Namespace: m.namespace, Manifest: deployment("web"), Clusters: []string{m.one}}, nil)
	m.begin(60)
	if told := m.await(federation.MoveDone); !slices.Equal(told.Clusters, []string{m.two}) {
		t.Errorf("it is on %v", told.Clusters)
	}
	m.f.must(m.token, "DELETE", m.path(), nil, nil)
	eventually(t, "the cluster has a profile", func() bool {
		var profile unstructured.Unstructured
		profile.SetAPIVersion("multicluster.x-k8s.io/v1alpha1")
		profile.SetKind("ClusterProfile")
		return admin.Get(t.Context(), types.NamespacedName{Namespace: system, Name: m.one}, &profile) == nil
	})
	linkOnce(t, s.f, s.token)
	for _, words := range []string{"forbidden", "level=ERROR"} {
		if text := m.f.log.String(); bytes.Contains([]byte(text), []byte(words)) {
			t.Errorf("the log has %q: %s", words, text)
		}
	}
}

// linkOnce has two clusters be linked, and the link end again.
func linkOnce(t *testing.T, f *running, token string) {
	t.Helper()
	l := &served{t: t, f: f, token: token, namespace: newNamespace(t), service: unique("plant")}
	l.clusters = []string{newCluster(t, v1alpha1.Pull), newCluster(t, v1alpha1.Pull)}
	l.k = startKarmada(t, l.namespace)
	l.make(l.service, nil)
	// Other tests have nodes with the usual addresses, and an address is one cluster's.
	endpoint := offers(l.offer("plc", "198.51.100.2"))
	l.report(map[string]tsn.TSNServiceStatus{l.clusters[0]: wants(l.want("arm", "198.51.100.1")), l.clusters[1]: endpoint})
	link := l.linked("arm", "plc")
	l.k.sayOf("TSNLink", link.Name, l.clusters[0], plugged(tsn.ConditionUp))
	eventually(t, "the link is up", func() bool { return l.isTrue(tsn.ConditionUp) })
	l.report(map[string]tsn.TSNServiceStatus{l.clusters[0]: {}, l.clusters[1]: endpoint})
	eventually(t, "the link is gone", func() bool { return len(l.links()) == 0 })
}
