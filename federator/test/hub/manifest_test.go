// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

func TestInvalidManifestIsRejected(t *testing.T) {
	f := startFederator(t)
	token, cluster, namespace := newAdmin(t), newCluster(t, "Push"), newNamespace(t)
	post := func(manifest string) federation.DeployRequest {
		return federation.DeployRequest{Name: "web", Namespace: namespace, Manifest: manifest, Clusters: []string{cluster}}
	}
	elsewhere, absent, offline := post(configMap("a")), post(configMap("a")), post(configMap("a"))
	elsewhere.Clusters, absent.Clusters, offline.Networks = []string{"nowhere"}, nil, []string{"nowhere"}
	many := strings.Builder{}
	for i := range federation.MaxObjects + 1 {
		many.WriteString("---\n" + configMap(fmt.Sprintf("c%d", i)))
	}
	for name, test := range map[string]struct {
		body   any
		status int
		words  string
	}{
		"no JSON":                    {"{", 400, "unexpected"},
		"an unknown field":           {`{"name":"web","manifest":"a","clusters":["a"],"image":"b"}`, 422, "image"},
		"a name with a dot":          {`{"name":"we.b","manifest":"a","clusters":["a"]}`, 422, "small letters, digits and hyphens"},
		"no clusters":                {absent, 422, "clusters"},
		"a cluster that is not":      {elsewhere, 422, "there is no cluster nowhere"},
		"a network that is not":      {offline, 422, "there is no TSNNetwork nowhere"},
		"nothing":                    {post("# nothing\n"), 422, "has no objects"},
		"no YAML":                    {post("a: [b\n"), 422, "document 1 of the manifest is not valid YAML"},
		"a text":                     {post("web"), 422, "is not an object of Kubernetes"},
		"no kind":                    {post("apiVersion: v1\n"), 422, "has no kind"},
		"no name":                    {post("apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a}\n"), 422, "has no metadata.name"},
		"a key twice":                {post("apiVersion: v1\nkind: ConfigMap\nkind: Secret\nmetadata: {name: a}\n"), 422, "already set"},
		"a list":                     {post("apiVersion: v1\nkind: List\nitems: []\n"), 422, "is a list"},
		"an unknown kind":            {post("apiVersion: example.org/v1\nkind: Gizmo\nmetadata: {name: a}\n"), 422, "the hub knows no kind Gizmo of example.org/v1"},
		"a kind without a namespace": {post("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"), 422, "Namespace a is in no namespace"},
		"another namespace":          {post("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: other}\n"), 422, "make a workload for each namespace"},
		"a policy":                   {post("apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: a}\n"), 422, "Karmada's own"},
		"an object twice":            {post(configMap("a") + "---\n" + configMap("a")), 422, "ConfigMap a appears twice"},
		"too many objects":           {post(many.String()), 422, "at most 100"},
		"a field that is not":        {post(deployment("a") + "  replica: 1\n"), 422, "replica"},
		"what the hub does not take": {post(strings.Replace(deployment("a"), "replicas: 2", "replicas: -2", 1)), 422, "must be greater than or equal to 0"},
		"too large":                  {post(configMap("a") + "# " + strings.Repeat("x", federation.MaxBody)), 413, "divide the manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			status, problem := f.call(token, "POST", "/api/v1/workloads", test.body, nil)
			if status != test.status || !strings.Contains(problem, test.words) {
				t.Errorf("%d %q, want %d with %q", status, problem, test.status, test.words)
			}
		})
	}
	var policies policyv1alpha1.PropagationPolicyList
	var maps corev1.ConfigMapList
	for _, list := range []client.ObjectList{&policies, &maps} {
		if err := admin.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
	}
	if len(policies.Items)+len(maps.Items) != 0 {
		t.Errorf("%d policies and %d objects were made", len(policies.Items), len(maps.Items))
	}
}

func TestChunkedBodyIsLimited(t *testing.T) {
	f := startFederator(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.address+"/api/v1/workloads", strings.NewReader(strings.Repeat("x", federation.MaxBody+1)))
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = -1
	request.Header.Set("Authorization", "Bearer "+newAdmin(t))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%d, want 413", answer.StatusCode)
	}
}
