// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// many is the number of workloads for which the API's figures are measured.
const many = 200

// newWorkloads creates what Karmada and two members would have created for many Deployments.
func newWorkloads(t *testing.T, count int) (namespace string) {
	t.Helper()
	namespace = newNamespace(t)
	clusters := []string{newCluster(t, "Pull"), newCluster(t, "Pull")}
	pods, err := json.Marshal(tsn.TSNWorkloadStatus{Total: 1, Ready: 1, Pods: []tsn.WorkloadPod{{
		Name: "pod", Node: "node1", Phase: string(corev1.PodRunning), Ready: true, Addresses: []string{"10.244.0.7"},
		Containers: []tsn.WorkloadContainer{{Name: "main", Image: "registry.example.org/main", State: "Running"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		name := fmt.Sprintf("many-%03d", i)
		policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{tsn.WorkloadLabel: name}}}
		policy.Spec.Placement.ClusterAffinity = &policyv1alpha1.ClusterAffinity{ClusterNames: clusters}
		for _, selector := range []policyv1alpha1.ResourceSelector{
			{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: name},
			{APIVersion: tsn.GroupVersion.String(), Kind: "TSNWorkload", Namespace: namespace, Name: name},
		} {
			policy.Spec.ResourceSelectors = append(policy.Spec.ResourceSelectors, selector)
			output := []byte(`{"replicas":1,"readyReplicas":1}`)
			if selector.Kind == "TSNWorkload" {
				output = pods
			}
			newBinding(t, &selector, clusters, output)
		}
		create(t, policy)
	}
	return namespace
}

func newBinding(t *testing.T, selector *policyv1alpha1.ResourceSelector, clusters []string, output []byte) {
	t.Helper()
	binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: selector.Namespace, Name: bindingName(selector)}}
	binding.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: selector.APIVersion, Kind: selector.Kind, Namespace: selector.Namespace, Name: selector.Name}
	for _, cluster := range clusters {
		binding.Spec.Clusters = append(binding.Spec.Clusters, workv1alpha2.TargetCluster{Name: cluster})
	}
	create(t, binding)
	for _, cluster := range clusters {
		binding.Status.AggregatedStatus = append(binding.Status.AggregatedStatus, workv1alpha2.AggregatedStatusItem{
			ClusterName: cluster, Applied: true, Health: workv1alpha2.ResourceHealthy, Status: &runtime.RawExtension{Raw: output},
		})
	}
	if err := admin.Status().Update(context.Background(), binding); err != nil {
		t.Fatal(err)
	}
}

// counted counts requests to the hub.
type counted struct {
	http.RoundTripper

	mu   sync.Mutex
	seen []string
}

// RoundTrip counts requests that callers cause; those of controllers are watches, leases and heartbeats.
func (c *counted) RoundTrip(request *http.Request) (*http.Response, error) {
	path := request.URL.Path
	if request.Header.Get("Impersonate-User") != "" || strings.Contains(path, "tokenreviews") {
		c.mu.Lock()
		c.seen = append(c.seen, request.Method+" "+path)
		c.mu.Unlock()
	}
	return c.RoundTripper.RoundTrip(request)
}

// during returns the requests to the hub during a call.
func (c *counted) during(do func()) []string {
	c.mu.Lock()
	c.seen = nil
	c.mu.Unlock()
	do()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

// startCounted runs a federator whose requests to the hub are counted.
func startCounted(t *testing.T) (*running, *counted) {
	t.Helper()
	needHub(t)
	counting, admins := &counted{}, config
	config = rest.CopyConfig(config)
	config.Wrap(func(through http.RoundTripper) http.RoundTripper {
		counting.RoundTripper = through
		return counting
	})
	f := startFederator(t)
	config = admins
	return f, counting
}

// asksFor are the requests that a list may cause: reviews of tokens and of rights.
var asksFor = []string{"POST /apis/authentication.k8s.io/v1/tokenreviews", "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"}

func TestListsAskHubForRightsOnly(t *testing.T) {
	f, counting := startCounted(t)
	token, namespace := newAdmin(t), newWorkloads(t, many)
	newNetwork(t, unique("many"), nil)
	eventually(t, "all are listed", func() bool { return len(f.listed(token, namespace)) == many })
	for path, reviews := range map[string]int{"/api/v1/workloads": 2, "/api/v1/pods": 3, "/api/v1/networks": 3} {
		var took []time.Duration
		for range 20 {
			seen := counting.during(func() {
				began := time.Now()
				f.must(token, "GET", path, nil, nil)
				took = append(took, time.Since(began))
			})
			for _, name := range seen {
				if !slices.Contains(asksFor, name) {
					t.Errorf("%s asks the hub for %s", path, name)
				}
			}
			// The review of the token may or may not be cached.
			if rights := slices.DeleteFunc(slices.Clone(seen), func(name string) bool { return name == asksFor[0] }); len(rights) != reviews || len(seen) > reviews+1 {
				t.Errorf("%s asks the hub %v, want one token at most and %d rights", path, seen, reviews)
			}
		}
		slices.Sort(took)
		t.Logf("%s: half within %v, all within %v", path, took[len(took)/2], took[len(took)-1])
	}
}

// listed returns the names of the workloads in a namespace, or in all.
func (r *running) listed(token, namespace string) []string {
	r.t.Helper()
	var list federation.Workloads
	r.must(token, "GET", "/api/v1/workloads?namespace="+namespace, nil, &list)
	var names []string
	for _, workload := range list.Items {
		names = append(names, workload.Namespace+"/"+workload.Name)
	}
	return names
}

func TestListIsLimitedToNamespaceRights(t *testing.T) {
	f := startFederator(t)
	ours, theirs := newWorkloads(t, 3), newWorkloads(t, 2)
	user := newUser(t, ours, ofWorkload, seesClusters)
	want := []string{ours + "/many-000", ours + "/many-001", ours + "/many-002"}
	eventually(t, "all are listed", func() bool { return slices.Equal(f.listed(user, ours), want) })
	var pods federation.Pods
	f.must(user, "GET", "/api/v1/pods?namespace="+ours, nil, &pods)
	if len(pods.Items) != 2*len(want) || slices.ContainsFunc(pods.Items, func(pod federation.Pod) bool { return !strings.HasPrefix(pod.Workload, ours+"/") }) {
		t.Errorf("told of pods %+v", pods.Items)
	}
	for _, path := range []string{"/api/v1/workloads", "/api/v1/pods"} {
		f.refused(user, "GET", path+"?namespace="+theirs, nil, http.StatusForbidden, `cannot list resource "`, `in the namespace "`+theirs+`"`)
		f.refused(user, "GET", path, nil, http.StatusForbidden, `cannot list resource "`, "at the cluster scope")
	}
	f.refused(user, "GET", "/api/v1/networks", nil, http.StatusForbidden, "cannot list resource")
}

func TestRevokedRightAppliesToNextList(t *testing.T) {
	f := startFederator(t)
	namespace := newWorkloads(t, 1)
	user := newUser(t, namespace, ofWorkload, nil)
	f.must(user, "GET", "/api/v1/workloads?namespace="+namespace, nil, nil)
	if err := admin.DeleteAllOf(context.Background(), &rbacv1.RoleBinding{}, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	// The hub's own authoriser sees the change a moment later.
	eventually(t, "the list is refused", func() bool {
		status, _ := f.call(user, "GET", "/api/v1/workloads?namespace="+namespace, nil, nil)
		return status == http.StatusForbidden
	})
}

func TestListNeedsAllRights(t *testing.T) {
	f := startFederator(t)
	namespace := newWorkloads(t, 1)
	user := newUser(t, namespace, ofWorkload[:1], nil)
	f.refused(user, "GET", "/api/v1/workloads?namespace="+namespace, nil, http.StatusForbidden, "resourcebindings.work.karmada.io is forbidden")
}
