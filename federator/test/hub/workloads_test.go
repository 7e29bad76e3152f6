// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

func get(t *testing.T, namespace, name string, object client.Object) {
	t.Helper()
	if err := admin.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: name}, object); err != nil {
		t.Fatal(err)
	}
}

func TestWorkloadLifecycle(t *testing.T) {
	f := startFederator(t)
	token, item, two, namespace := newAdmin(t), newCluster(t, "Pull"), newCluster(t, "Push"), newNamespace(t)
	k := startKarmada(t, namespace, item)
	request := federation.DeployRequest{Name: "web", Namespace: namespace, Manifest: deployment("web") + "---\n" + configMap("conf"), Clusters: []string{two, item}}
	f.must(token, "POST", "/api/v1/workloads", request, nil)

	var policy policyv1alpha1.PropagationPolicy
	get(t, namespace, "web", &policy)
	if got := policy.Spec.Placement.ClusterAffinity.ClusterNames; !slices.Equal(got, []string{item, two}) {
		t.Errorf("placed on %v", got)
	}
	if policy.Spec.PreserveResourcesOnDeletion == nil || !*policy.Spec.PreserveResourcesOnDeletion || policy.Spec.ConflictResolution != policyv1alpha1.ConflictAbort {
		t.Errorf("the policy does not preserve, or overwrites: %+v", policy.Spec)
	}
	var workload federation.Workload
	eventually(t, "all is reported", func() bool {
		f.must(token, "GET", "/api/v1/workloads/"+namespace+"/web", nil, &workload)
		return len(workload.Objects) == 2 && len(workload.Objects[0].Clusters) == 2 && workload.Objects[0].Clusters[0].Applied && *workload.Objects[0].Clusters[0].Ready == 2 &&
			*workload.Objects[0].Clusters[1].Ready == 0 && workload.Objects[0].Clusters[1].Health == federation.Unhealthy
	})
	eventually(t, "the list has the same", func() bool {
		var list federation.Workloads
		f.must(token, "GET", "/api/v1/workloads?namespace="+namespace, nil, &list)
		workload = federation.Workload{}
		f.must(token, "GET", "/api/v1/workloads/"+namespace+"/web", nil, &workload)
		return len(list.Items) == 1 && reflect.DeepEqual(list.Items[0], workload)
	})
	// Repeating it changes nothing except the policy's mark of the deployment.
	var createdDeployment appsv1.Deployment
	get(t, namespace, "web", &createdDeployment)
	before, madeBefore := policy.Generation, createdDeployment.Generation
	f.must(token, "POST", "/api/v1/workloads", request, nil)
	get(t, namespace, "web", &policy)
	get(t, namespace, "web", &createdDeployment)
	if policy.Generation != before || createdDeployment.Generation != madeBefore {
		t.Errorf("the policy was changed from %d to %d, and the Deployment from %d to %d", before, policy.Generation, madeBefore, createdDeployment.Generation)
	}

	f.must(token, "DELETE", "/api/v1/workloads/"+namespace+"/web", nil, nil)
	f.refused(token, "GET", "/api/v1/workloads/"+namespace+"/web", nil, http.StatusNotFound, "there is no workload "+namespace+"/web")
	for name, object := range map[string]client.Object{"web": &appsv1.Deployment{}, "conf": &corev1.ConfigMap{}} {
		if err := admin.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, object); !apierrors.IsNotFound(err) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
	eventually(t, "both clusters have removed it", func() bool {
		removed, kept := k.became()
		if len(kept) > 0 {
			t.Fatalf("clusters %v kept it", kept)
		}
		return slices.Equal(removed, []string{item, two})
	})
}

func TestPodsGetLabelsAndNetworks(t *testing.T) {
	f := startFederator(t)
	token, cluster, namespace := newAdmin(t), newCluster(t, "Push"), newNamespace(t)
	network := newNetwork(t, "line", nil)
	manifest := strings.Replace(deployment("web"), "metadata: {name: web}", "metadata: {name: web, annotations: {kubernetsn.io/network: 'other,"+network+"'}}", 1)
	f.must(token, "POST", "/api/v1/workloads",
		federation.DeployRequest{Name: "w", Namespace: namespace, Manifest: manifest, Clusters: []string{cluster}, Networks: []string{network}}, nil)
	var createdDeployment appsv1.Deployment
	get(t, namespace, "web", &createdDeployment)
	pods := createdDeployment.Spec.Template
	if pods.Labels[tsn.WorkloadLabel] != "w" || pods.Labels["app"] != "web" || createdDeployment.Labels[tsn.WorkloadLabel] != "w" {
		t.Errorf("labels %v of pods, %v of the object", pods.Labels, createdDeployment.Labels)
	}
	if got := pods.Annotations[tsn.NetworkAnnotation]; got != "other,"+network {
		t.Errorf("the pods are on %q", got)
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	f := startFederator(t)
	token, cluster, namespace := newAdmin(t), newCluster(t, "Push"), newNamespace(t)
	var workload federation.Workload
	f.must(token, "POST", "/api/v1/workloads",
		federation.DeployRequest{Name: "w", Namespace: namespace, Manifest: configMap("c"), Clusters: []string{cluster}, DryRun: true}, &workload)
	if len(workload.Objects) != 1 || !slices.Equal(workload.Clusters, []string{cluster}) {
		t.Errorf("told %+v", workload)
	}
	f.refused(token, "GET", "/api/v1/workloads/"+namespace+"/w", nil, http.StatusNotFound)
	if err := admin.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "c"}, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("the object was made: %v", err)
	}
}

func TestReplacementMustNotRemoveObjects(t *testing.T) {
	f := startFederator(t)
	token, name, two, namespace := newAdmin(t), newCluster(t, "Push"), newCluster(t, "Push"), newNamespace(t)
	post := func(manifest string, clusters ...string) federation.DeployRequest {
		return federation.DeployRequest{Name: "w", Namespace: namespace, Manifest: manifest, Clusters: clusters}
	}
	f.must(token, "POST", "/api/v1/workloads", post(configMap("a"), name), nil)
	f.refused(token, "POST", "/api/v1/workloads", post(configMap("b"), name), http.StatusConflict, "has ConfigMap a, and the manifest does not")
	f.refused(token, "POST", "/api/v1/workloads", post(configMap("a"), two), http.StatusConflict, "is on "+name+" as well; move it")
	f.must(token, "POST", "/api/v1/workloads", post(configMap("a")+"---\n"+configMap("b"), name, two), nil)
	foreign := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"}}
	foreign.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap"}}
	create(t, foreign)
	f.refused(token, "DELETE", "/api/v1/workloads/"+namespace+"/x", nil, http.StatusConflict, "created by somebody else")
}

func TestListWithFiveHundredObjects(t *testing.T) {
	f := startFederator(t)
	token, cluster, namespace := newAdmin(t), newCluster(t, "Push"), newNamespace(t)
	const each = 50
	var waiting sync.WaitGroup
	for i := range 500 / each {
		var manifest strings.Builder
		for j := range each {
			manifest.WriteString("---\n" + configMap(fmt.Sprintf("c-%d-%d", i, j)))
		}
		waiting.Go(func() {
			f.must(token, "POST", "/api/v1/workloads",
				federation.DeployRequest{Name: fmt.Sprintf("w-%d", i), Namespace: namespace, Manifest: manifest.String(), Clusters: []string{cluster}}, nil)
		})
	}
	waiting.Wait()
	eventually(t, "all are told", func() bool {
		var list federation.Workloads
		f.must(token, "GET", "/api/v1/workloads?namespace="+namespace, nil, &list)
		count := 0
		for _, workload := range list.Items {
			count += len(workload.Objects)
		}
		return len(list.Items) == 500/each && count == 500
	})
}
