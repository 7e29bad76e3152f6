// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// karmada does in one namespace what Karmada's programs and the members would do: it creates a binding for each object
// that a policy selects, a Work for each cluster, and reports the state that the test sets.
type karmada struct {
	t         *testing.T
	namespace string

	mu sync.Mutex
	// healthy are clusters that report objects as healthy.
	healthy map[string]bool
	// removed and kept are clusters whose Work was deleted, and that then removed or kept the object.
	removed, kept map[string]bool
	// linksRemoved and linksKept are the same for TSNLinks alone.
	linksRemoved, linksKept map[string]bool
	// pods are the clusters' reports about pods, as the status of a TSNWorkload.
	pods map[string][]byte
	// statuses are the clusters' reports about objects, by kind, name and cluster.
	statuses map[[3]string][]byte
	// placements are all observed placements, in order.
	placements []string
}

// startKarmada runs it until the test ends.
func startKarmada(t *testing.T, namespace string, healthy ...string) *karmada {
	t.Helper()
	k := &karmada{t: t, namespace: namespace, healthy: map[string]bool{}, removed: map[string]bool{}, kept: map[string]bool{}, linksRemoved: map[string]bool{}, linksKept: map[string]bool{}, pods: map[string][]byte{},
		statuses: map[[3]string][]byte{}}
	for _, cluster := range healthy {
		k.healthy[cluster] = true
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		for ctx.Err() == nil {
			k.round(ctx)
			time.Sleep(50 * time.Millisecond)
		}
	})
	t.Cleanup(func() { cancel(); ended.Wait() })
	return k
}

// heal makes a cluster report objects as healthy.
func (k *karmada) heal(cluster string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.healthy[cluster] = true
}

// say sets a cluster's report about pods.
func (k *karmada) say(cluster, status string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods[cluster] = []byte(status)
}

// sayOf sets a cluster's report about an object; nil removes it.
func (k *karmada) sayOf(kind, name, cluster string, status any) {
	raw, err := json.Marshal(status)
	if err != nil {
		k.t.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if status == nil {
		raw = nil
	}
	k.statuses[[3]string{kind, name, cluster}] = raw
}

// became returns the clusters that removed objects, and those that kept them.
func (k *karmada) became() (removed, kept []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.removed)), slices.Sorted(maps.Keys(k.kept))
}

// becameOfLinks returns the same for links.
func (k *karmada) becameOfLinks() (removed, kept []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.linksRemoved)), slices.Sorted(maps.Keys(k.linksKept))
}

// seen returns the placements so far.
func (k *karmada) seen() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.placements)
}

func (k *karmada) round(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var policies policyv1alpha1.PropagationPolicyList
	if err := admin.List(ctx, &policies, client.InNamespace(k.namespace)); err != nil {
		return
	}
	wanted := map[string]bool{}
	for i := range policies.Items {
		policy := &policies.Items[i]
		placement := policy.Name + ": " + strings.Join(policy.Spec.Placement.ClusterAffinity.ClusterNames, ",")
		if len(k.placements) == 0 || k.placements[len(k.placements)-1] != placement {
			k.placements = append(k.placements, placement)
		}
		for _, selector := range policy.Spec.ResourceSelectors {
			if k.bind(ctx, policy, &selector) {
				wanted[bindingName(&selector)] = true
			}
		}
	}
	k.sweep(ctx, wanted)
}

func bindingName(selector *policyv1alpha1.ResourceSelector) string {
	return strings.ToLower(selector.Name + "-" + selector.Kind)
}

// bind creates or updates the binding of an object, and its Works. It returns false if the object does not exist.
func (k *karmada) bind(ctx context.Context, policy *policyv1alpha1.PropagationPolicy, selector *policyv1alpha1.ResourceSelector) bool {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(selector.APIVersion)
	object.SetKind(selector.Kind)
	if admin.Get(ctx, types.NamespacedName{Namespace: k.namespace, Name: selector.Name}, object) != nil {
		return false
	}
	binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: bindingName(selector)}}
	err := admin.Get(ctx, client.ObjectKeyFromObject(binding), binding)
	before := binding.DeepCopy()
	binding.Labels = map[string]string{workv1alpha2.ResourceBindingPermanentIDLabel: k.namespace + "." + bindingName(selector)}
	binding.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: selector.APIVersion, Kind: selector.Kind, Namespace: k.namespace, Name: selector.Name}
	binding.Spec.PreserveResourcesOnDeletion = policy.Spec.PreserveResourcesOnDeletion
	binding.Spec.Clusters = nil
	for _, cluster := range policy.Spec.Placement.ClusterAffinity.ClusterNames {
		binding.Spec.Clusters = append(binding.Spec.Clusters, workv1alpha2.TargetCluster{Name: cluster})
	}
	if apierrors.IsNotFound(err) {
		err = admin.Create(ctx, binding)
	} else if err == nil && !equality.Semantic.DeepEqual(before, binding) {
		err = admin.Update(ctx, binding)
	}
	if err == nil {
		k.report(ctx, binding)
		k.work(ctx, binding, object)
	}
	return true
}

// report writes the reports of all clusters about an object.
func (k *karmada) report(ctx context.Context, binding *workv1alpha2.ResourceBinding) {
	before := binding.DeepCopy()
	binding.Status.AggregatedStatus = nil
	for _, target := range binding.Spec.Clusters {
		item := workv1alpha2.AggregatedStatusItem{ClusterName: target.Name, Applied: true, Health: workv1alpha2.ResourceUnhealthy}
		ready := "0"
		if k.healthy[target.Name] {
			item.Health, ready = workv1alpha2.ResourceHealthy, "2"
		}
		output := k.statuses[[3]string{binding.Spec.Resource.Kind, binding.Spec.Resource.Name, target.Name}]
		switch {
		case output != nil:
			item.Status, item.Health = &runtime.RawExtension{Raw: output}, workv1alpha2.ResourceUnknown
		case binding.Spec.Resource.Kind == "TSNWorkload" && k.pods[target.Name] != nil:
			item.Status = &runtime.RawExtension{Raw: k.pods[target.Name]}
			item.Health = workv1alpha2.ResourceUnknown
		case binding.Spec.Resource.Kind == "Deployment":
			item.Status = &runtime.RawExtension{Raw: []byte(`{"replicas":2,"readyReplicas":` + ready + `}`)}
		default:
			item.Health = workv1alpha2.ResourceUnknown
		}
		binding.Status.AggregatedStatus = append(binding.Status.AggregatedStatus, item)
	}
	if !equality.Semantic.DeepEqual(before.Status, binding.Status) {
		_ = admin.Status().Update(ctx, binding) // or in the next round
	}
}

// work creates the Works of a binding, and deletes those of other clusters.
func (k *karmada) work(ctx context.Context, binding *workv1alpha2.ResourceBinding, object *unstructured.Unstructured) {
	raw, _ := object.MarshalJSON()
	var clusters []string
	for _, target := range binding.Spec.Clusters {
		clusters = append(clusters, target.Name)
		work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-" + target.Name, Name: k.namespace + "." + binding.Name}}
		err := admin.Get(ctx, client.ObjectKeyFromObject(work), work)
		before := work.DeepCopy()
		work.Labels = binding.Labels
		work.Spec.PreserveResourcesOnDeletion = binding.Spec.PreserveResourcesOnDeletion
		work.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}
		switch {
		case apierrors.IsNotFound(err):
			_ = admin.Create(ctx, work) // or in the next round, when the namespace exists
		case err == nil && !equality.Semantic.DeepEqual(before.Spec.PreserveResourcesOnDeletion, work.Spec.PreserveResourcesOnDeletion):
			_ = admin.Update(ctx, work)
		}
	}
	k.take(ctx, binding.Labels[workv1alpha2.ResourceBindingPermanentIDLabel], clusters)
}

// take deletes the Works of a binding in all clusters except these.
func (k *karmada) take(ctx context.Context, id string, but []string) {
	var works workv1alpha1.WorkList
	if admin.List(ctx, &works, client.MatchingLabels{workv1alpha2.ResourceBindingPermanentIDLabel: id}) != nil {
		return
	}
	for i := range works.Items {
		work := &works.Items[i]
		cluster := strings.TrimPrefix(work.Namespace, "karmada-es-")
		if slices.Contains(but, cluster) || admin.Delete(ctx, work) != nil {
			continue
		}
		removed, kept := k.removed, k.kept
		if strings.HasSuffix(work.Name, "-tsnlink") {
			removed, kept = k.linksRemoved, k.linksKept
		}
		if ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false) {
			kept[cluster] = true
		} else {
			removed[cluster] = true
		}
	}
}

// sweep deletes bindings whose objects are gone.
func (k *karmada) sweep(ctx context.Context, wanted map[string]bool) {
	var list workv1alpha2.ResourceBindingList
	if admin.List(ctx, &list, client.InNamespace(k.namespace)) != nil {
		return
	}
	for i := range list.Items {
		binding := &list.Items[i]
		if !wanted[binding.Name] {
			k.take(ctx, binding.Labels[workv1alpha2.ResourceBindingPermanentIDLabel], nil)
			_ = admin.Delete(ctx, binding)
		}
	}
}
