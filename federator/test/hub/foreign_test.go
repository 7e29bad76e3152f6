// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

func TestWorkloadTakesNoForeignObjects(t *testing.T) {
	f, token, cluster, namespace := startFederator(t), newAdmin(t), newCluster(t, "Push"), newNamespace(t)
	deploy := func(name, manifest string) federation.DeployRequest {
		return federation.DeployRequest{Name: name, Namespace: namespace, Manifest: manifest, Clusters: []string{cluster}}
	}
	f.must(token, "POST", "/api/v1/workloads", deploy("first", deployment("web")), nil)
	create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "conf"}, Data: map[string]string{"by": "hand"}})
	f.refused(token, "POST", "/api/v1/workloads", deploy("second", deployment("web")+"---\n"+configMap("conf")), http.StatusConflict,
		"Deployment web (of workload first)", "ConfigMap conf (of no workload)")
	var kept corev1.ConfigMap
	get(t, namespace, "conf", &kept)
	var web appsv1.Deployment
	get(t, namespace, "web", &web)
	if kept.Data["by"] != "hand" || web.Labels["federation.kubernetsn.io/workload"] != "first" {
		t.Errorf("they are %v and %v", kept.Data, web.Labels)
	}
	f.refused(token, "GET", "/api/v1/workloads/"+namespace+"/second", nil, http.StatusNotFound)
	f.must(token, "POST", "/api/v1/workloads", deploy("first", deployment("web")), nil)
}

func TestWorkloadNeedsItsNetwork(t *testing.T) {
	s := newStretched(t, nil)
	chosen, other, namespace := s.member(), newCluster(t, "Pull"), newNamespace(t)
	deploy := federation.DeployRequest{Name: "web", Namespace: namespace, Manifest: deployment("web"), Networks: []string{s.network}, Clusters: []string{chosen, other}}
	s.f.refused(s.token, "POST", "/api/v1/workloads", deploy, http.StatusUnprocessableEntity, "TSNNetwork "+s.network+" is not on cluster "+other, "fleet="+s.fleet)
	annotated := federation.DeployRequest{Name: "web", Namespace: namespace, Clusters: deploy.Clusters,
		Manifest: strings.Replace(deployment("web"), "template:\n    metadata: {", "template:\n    metadata: {annotations: {"+tsn.NetworkAnnotation+": 'own, "+s.network+"'}, ", 1)}
	s.f.refused(s.token, "POST", "/api/v1/workloads", annotated, http.StatusUnprocessableEntity, "TSNNetwork "+s.network+" is not on cluster "+other)
	deploy.Clusters = []string{chosen}
	s.f.must(s.token, "POST", "/api/v1/workloads", deploy, nil)
	s.f.refused(s.token, "POST", "/api/v1/workloads/"+namespace+"/web/move", federation.MoveRequest{To: []string{other}}, http.StatusUnprocessableEntity,
		"TSNNetwork "+s.network+" is not on cluster "+other)
}
