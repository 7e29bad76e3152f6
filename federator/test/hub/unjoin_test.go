// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// TestUnjoinWithoutAgentRights reproduces Karmada's order: the agent's rights are removed with the namespace of the
// Works, which wait for the agent.
func TestUnjoinWithoutAgentRights(t *testing.T) {
	f, token, name := startFederator(t), newAdmin(t), newCluster(t, "Pull")
	var cluster v1alpha1.Cluster
	get(t, "", name, &cluster)
	cluster.Finalizers = []string{"karmada.io/cluster-controller"}
	if err := admin.Update(t.Context(), &cluster); err != nil {
		t.Fatal(err)
	}
	// A namespace that Karmada has created in the cluster, with its contents.
	given := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-" + name, Name: "namespace", Finalizers: []string{"karmada.io/execution-controller"}}}
	given.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}`)}}}
	create(t, given)
	left := make(chan federation.Unjoined, 1)
	go func() {
		var unjoined federation.Unjoined
		f.call(token, "DELETE", "/api/v1/clusters/"+name, nil, &unjoined)
		left <- unjoined
	}()
	// Karmada does this when a Cluster is deleted.
	eventually(t, "the cluster leaves", func() bool {
		return admin.Get(t.Context(), types.NamespacedName{Name: name}, &cluster) == nil && cluster.DeletionTimestamp != nil
	})
	var work workv1alpha1.Work
	get(t, given.Namespace, given.Name, &work)
	if !ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false) {
		t.Error("the cluster would remove what the hub forgets")
	}
	if err := admin.Delete(t.Context(), &work); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what nobody lets go of is gone", func() bool {
		return apierrors.IsNotFound(admin.Get(t.Context(), client.ObjectKeyFromObject(&work), &work))
	})
	cluster.Finalizers = nil
	if err := admin.Update(t.Context(), &cluster); err != nil {
		t.Fatal(err)
	}
	if unjoined := <-left; unjoined.Cluster != name {
		t.Errorf("told %+v", unjoined)
	}
}

// held keeps a cluster until the returned function is called.
func held(t *testing.T, name string) (letGo func()) {
	t.Helper()
	change := func(finalizers ...string) {
		t.Helper()
		var cluster v1alpha1.Cluster
		get(t, "", name, &cluster)
		cluster.Finalizers = finalizers
		if err := admin.Update(t.Context(), &cluster); err != nil {
			t.Fatal(err)
		}
	}
	change("karmada.io/cluster-controller")
	return func() { t.Helper(); change() }
}

// unjoined is the response to the removal of a cluster.
type unjoined struct {
	status   int
	problem  string
	response federation.Unjoined
}

// unjoin sends the request and does not wait for the response.
func unjoin(f *running, token, cluster, query string) <-chan *unjoined {
	answer := make(chan *unjoined, 1)
	go func() {
		result := &unjoined{}
		result.status, result.problem = f.call(token, "DELETE", "/api/v1/clusters/"+cluster+query, nil, &result.response)
		answer <- result
	}()
	return answer
}

func leaves(t *testing.T, name string) {
	t.Helper()
	eventually(t, "the cluster is being removed", func() bool {
		var cluster v1alpha1.Cluster
		get(t, "", name, &cluster)
		return cluster.DeletionTimestamp != nil
	})
}

func TestConcurrentUnjoinsWaitTogether(t *testing.T) {
	f, token, name, namespace := startFederator(t), newAdmin(t), newCluster(t, "Push"), newNamespace(t)
	startKarmada(t, namespace, name)
	f.must(token, "POST", "/api/v1/workloads", federation.DeployRequest{Name: "web", Namespace: namespace, Manifest: deployment("web"), Clusters: []string{name}}, nil)
	letGo := held(t, name)
	first := unjoin(f, token, name, "?force=true")
	leaves(t, name)
	second, third := unjoin(f, token, name, ""), unjoin(f, token, name, "?force=true")
	select {
	case unjoined := <-second:
		t.Errorf("is answered before the cluster has left: %+v", unjoined)
	case unjoined := <-third:
		t.Errorf("is answered before the cluster has left: %+v", unjoined)
	case <-time.After(4 * time.Second): // in which both have been asked
	}
	letGo()
	if unjoined := <-first; unjoined.status != http.StatusOK || !strings.HasPrefix(unjoined.response.Message, "cluster "+name+" has left") ||
		!strings.Contains(unjoined.response.Message, federation.RightsLabel+"=RIGHTS") {
		t.Errorf("the first one is told %+v", unjoined)
	}
	for _, answer := range []<-chan *unjoined{second, third} {
		unjoined := <-answer
		if unjoined.status != http.StatusOK || !strings.Contains(unjoined.response.Message, "cluster "+name+" was being removed already, since ") ||
			!strings.Contains(unjoined.response.Message, "has left") || !slices.Equal(unjoined.response.Left, []string{namespace + "/web"}) {
			t.Errorf("told %+v", unjoined)
		}
	}
	f.refused(token, "DELETE", "/api/v1/clusters/"+name, nil, http.StatusNotFound, "there is no cluster "+name)
}

func TestForcedUnjoinDuringDrain(t *testing.T) {
	f, token, name, two, namespace := startFederator(t), newAdmin(t), newCluster(t, "Push"), newCluster(t, "Push"), newNamespace(t)
	k := startKarmada(t, namespace, name) // so that draining waits for the other cluster
	f.must(token, "POST", "/api/v1/workloads", federation.DeployRequest{Name: "web", Namespace: namespace, Manifest: deployment("web"), Clusters: []string{name, two}}, nil)
	first := unjoin(f, token, name, "")
	var workload federation.Workload
	eventually(t, "it is being drained", func() bool {
		f.must(token, "GET", "/api/v1/workloads/"+namespace+"/web", nil, &workload)
		return workload.Move != nil && workload.Move.Phase == federation.MovePlacing
	})
	by := <-unjoin(f, token, name, "?force=true")
	if by.status != http.StatusOK || !slices.Equal(by.response.Left, []string{namespace + "/web"}) || !strings.HasPrefix(by.response.Message, "cluster "+name+" has left") {
		t.Fatalf("by force told %+v", by)
	}
	k.heal(two)
	if unjoined := <-first; unjoined.status != http.StatusOK || !strings.Contains(unjoined.response.Message, "has left") {
		t.Errorf("whoever drained it is told %+v", unjoined)
	}
	eventually(t, "it is on the other one alone", func() bool {
		f.must(token, "GET", "/api/v1/workloads/"+namespace+"/web", nil, &workload)
		return slices.Equal(workload.Clusters, []string{two})
	})
}
