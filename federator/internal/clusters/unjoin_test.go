// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"testing"
	"time"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// newRemover returns a Service for a hub with some objects. Each reading of its clock takes ten seconds.
func newRemover(t *testing.T, have ...client.Object) *Service {
	t.Helper()
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.Install, workv1alpha1.Install, tsn.AddToScheme} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	hub := fake.NewClientBuilder().WithScheme(types).WithObjects(have...).Build()
	now := time.Unix(1000, 0)
	return &Service{Client: hub, FederatorClient: hub, Now: func() time.Time { now = now.Add(10 * time.Second); return now }}
}

func newMember(finalizers ...string) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "north", UID: "1", Finalizers: finalizers}}
}

func TestRemoveReportsProgress(t *testing.T) {
	since := metav1.NewTime(time.Unix(500, 0))
	leaving := newMember("karmada.io/cluster-controller")
	leaving.DeletionTimestamp = &since
	given := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-north", Name: "web"}}
	s := newRemover(t, leaving, given)
	cluster, err := s.Get(t.Context(), "north")
	if err != nil {
		t.Fatal(err)
	}
	removal, err := s.Remove(t.Context(), cluster)
	if err != nil || removal.Left || removal.Given != 1 || !removal.Since.Equal(&since) {
		t.Errorf("told %+v: %v", removal, err)
	}
}

func TestRemoveOfRemovedCluster(t *testing.T) {
	for name, cluster := range map[string]*v1alpha1.Cluster{
		"before it was asked": newMember(),
		"while it was being removed": func() *v1alpha1.Cluster {
			leaving := newMember()
			leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(500, 0)}
			return leaving
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			removal, err := newRemover(t).Remove(t.Context(), cluster)
			if err != nil || !removal.Left {
				t.Errorf("told %+v: %v", removal, err)
			}
		})
	}
}
