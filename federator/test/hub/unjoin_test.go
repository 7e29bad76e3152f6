// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"testing"

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

// TestAClusterLeavesWhoseAgentMayNothingAnyMore is about Karmada's order: the agent's rights go with the namespace of the Works, and these wait
// for the agent.
func TestAClusterLeavesWhoseAgentMayNothingAnyMore(t *testing.T) {
	f, token, name := startFederator(t), newAdmin(t), newCluster(t, "Pull")
	var cluster v1alpha1.Cluster
	get(t, "", name, &cluster)
	cluster.Finalizers = []string{"karmada.io/cluster-controller"}
	if err := admin.Update(t.Context(), &cluster); err != nil {
		t.Fatal(err)
	}
	// A namespace that Karmada has made in the cluster, with all that is in it.
	given := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-" + name, Name: "namespace", Finalizers: []string{"karmada.io/execution-controller"}}}
	given.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}`)}}}
	create(t, given)
	left := make(chan federation.Unjoined, 1)
	go func() {
		var told federation.Unjoined
		f.call(token, "DELETE", "/api/v1/clusters/"+name, nil, &told)
		left <- told
	}()
	// What Karmada does when a Cluster goes.
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
	if told := <-left; told.Cluster != name {
		t.Errorf("told %+v", told)
	}
}
