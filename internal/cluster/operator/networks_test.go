// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// inCluster is the controller in a cluster with these objects.
func inCluster(t *testing.T, objects ...client.Object) *Networks {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, errors.Join(AddToScheme(scheme), metav1.AddMetaToScheme(scheme)))
	scheme.AddKnownTypeWithName(attachmentKind, &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(attachmentKind.GroupVersion().WithKind("NetworkAttachmentDefinitionList"), &unstructured.UnstructuredList{})
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.TSNNetwork{}).Build()
	shared := newShared(cluster, newAgentIndex(agentTimeout, time.Now))
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			shared.pods.set(pod)
		}
	}
	shared.pods.markSynced()
	shared.agents.markSynced()
	return newNetworks(shared, cluster, record.NewFakeRecorder(100), "kubernetsn", func() int64 { return 0 })
}

// lookAt has the controller look at the network, and returns it.
func (r *Networks) lookAt(t *testing.T) *v1alpha1.TSNNetwork {
	t.Helper()
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "old"}}); err != nil {
		t.Fatal(err)
	}
	return get(t, r)
}

func get(t *testing.T, r *Networks) *v1alpha1.TSNNetwork {
	t.Helper()
	network := &v1alpha1.TSNNetwork{}
	must(t, r.Client.Get(t.Context(), client.ObjectKey{Name: "old"}, network))
	return network
}

// aPod is on network old and runs on node a.
func aPod(namespace string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: namespace, Labels: map[string]string{v1alpha1.PodLabel: v1alpha1.LabelValue},
			Annotations: map[string]string{v1alpha1.NetworkAnnotation: "old"}},
		Spec: corev1.PodSpec{NodeName: "a"},
	}
}

// deleted is a network that somebody has deleted, with a part and a schedule.
func deleted() *v1alpha1.TSNNetwork {
	now := metav1.NewTime(time.Unix(1, 0))
	return &v1alpha1.TSNNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: "old", Finalizers: []string{v1alpha1.Finalizer}, DeletionTimestamp: &now},
		Spec: v1alpha1.TSNNetworkSpec{VNI: 42, IPv4: v1alpha1.Range4{CIDR: "10.42.0.0/16", NodePrefixLength: 24},
			TrafficClasses: &v1alpha1.TrafficClasses{}},
		Status: v1alpha1.TSNNetworkStatus{Schedule: &v1alpha1.ScheduleRequest{Hash: "asked", BaseTime: v1alpha1.PTPTime{Seconds: 77}}},
	}
}

// subnetOf is the TSNNode of a node with a subnet of network old.
func subnetOf(node, ipv4 string) *v1alpha1.TSNNode {
	return &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: v1alpha1.TSNNodeSpec{Networks: []v1alpha1.NodeNetwork{{Name: "old", IPv4: ipv4}}}}
}

func TestDeletedNetworkServesPods(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	r := inCluster(t, node, subnetOf("a", "10.42.7.0/24"), deleted(), aPod("default"))
	network := r.lookAt(t)
	if got := given(r); got != "map[a:10.42.7.0/24]" {
		t.Errorf("the nodes have %s", got)
	}
	if request := network.Status.Schedule; request == nil || request.Hash != "asked" || request.BaseTime.Seconds != 77 {
		t.Errorf("nodes get the schedule %+v", request)
	}
}

// TestReservedPort has networks whose port is that of encrypted tunnels: a new one gets nothing, one with pods keeps its subnets.
func TestReservedPort(t *testing.T) {
	for served, want := range map[bool]string{false: "map[]", true: "map[a:10.42.7.0/24]"} {
		network := deleted()
		network.DeletionTimestamp, network.Spec.Port = nil, 8472
		objects := []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, network, aPod("default")}
		if served {
			objects = append(objects, subnetOf("a", "10.42.7.0/24"))
		}
		r := inCluster(t, objects...)
		r.shared.encryptedPort = 8472
		status := r.lookAt(t).Status
		ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
		if got := given(r); got != want || ready.Status != metav1.ConditionFalse || ready.Reason != v1alpha1.ReasonPortReserved ||
			!strings.Contains(ready.Message, "spec.port 8472 is the port of encrypted tunnels") {
			t.Errorf("with subnets %t: the nodes have %s, the network %+v", served, got, ready)
		}
	}
}

// staleClient is a client whose cache does not hear of changes to the network any more. Unlike the fake one, which keeps its version,
// it refuses to apply to a version that is past, as an API server does (test/operator).
func staleClient(t *testing.T, cluster client.Client) client.Client {
	t.Helper()
	var known v1alpha1.TSNNetworkList
	changed := false
	must(t, cluster.List(t.Context(), &known))
	return interceptor.NewClient(cluster.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if networks, ok := list.(*v1alpha1.TSNNetworkList); ok {
				known.DeepCopyInto(networks)
				return nil
			}
			return c.List(ctx, list, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, part string, object client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption) error {
			if changed && object.GetResourceVersion() == known.Items[0].ResourceVersion {
				return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), errors.New("the object has been modified"))
			}
			changed = true
			return c.SubResource(part).Patch(ctx, object, patch, options...)
		},
	})
}

// given are the parts of network old.
func given(r *Networks) string {
	parts := map[string]string{}
	for node, part := range r.shared.subnets.forNetwork("old") {
		parts[node], _ = part.cidrs()
	}
	return fmt.Sprint(parts)
}

// TestSubnetsWithStaleCache has a network looked at twice as it was before any node had a part, with a pod more on a
// node whose turn would have been first.
func TestSubnetsWithStaleCache(t *testing.T) {
	network := deleted()
	network.DeletionTimestamp, network.Status = nil, v1alpha1.TSNNetworkStatus{}
	r := inCluster(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, network, aPod("default"))
	r.lookAt(t)
	first := given(r)
	other := aPod("other")
	other.Spec.NodeName = "0"
	must(t, r.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "0"}}))
	r.shared.pods.set(other)
	r.lookAt(t)
	second := given(r)
	if want := "map[a:10.42.0.0/24]"; first != want {
		t.Errorf("given was %s, want %s", first, want)
	}
	if want := "map[0:10.42.1.0/24 a:10.42.0.0/24]"; second != want {
		t.Errorf("now it is %s, want %s", second, want)
	}
}

// TestBaseTimeWithStaleCache reconciles twice from the state before the network had a base time.
func TestBaseTimeWithStaleCache(t *testing.T) {
	network := deleted()
	network.DeletionTimestamp, network.Status = nil, v1alpha1.TSNNetworkStatus{}
	network.Spec.Schedule = &v1alpha1.GateParameterTable{
		GateEnabled: true, AdminCycleTime: &v1alpha1.CycleTime{Numerator: 1, Denominator: 1000},
		AdminControlList: &v1alpha1.GateControlList{Entries: []v1alpha1.GateControlEntry{
			{OperationName: "set-gate-states", TimeIntervalValue: 1000000, GateStatesValue: 255}}},
	}
	r := inCluster(t, network)
	r.Client = staleClient(t, r.Client)
	first := r.lookAt(t).Status.Schedule
	if first == nil || first.BaseTime.Seconds == 0 {
		t.Fatalf("nodes get %+v", first)
	}
	r.NowTAI = func() int64 { return 77e9 }
	result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(network)})
	if err != nil || result.RequeueAfter != conflictRetryDelay {
		t.Errorf("it is looked at again after %v, %v; want %v", result.RequeueAfter, err, conflictRetryDelay)
	}
	if second := get(t, r).Status.Schedule; !reflect.DeepEqual(second, first) {
		t.Errorf("the schedule was %+v, and is now %+v", first, second)
	}
}

func TestDeletedNetworkKeepsGates(t *testing.T) {
	old, next := deleted(), deleted()
	next.Name, next.DeletionTimestamp, next.CreationTimestamp = "next", nil, metav1.NewTime(time.Unix(2, 0))
	if got := scheduleOwner([]v1alpha1.TSNNetwork{*next, *old}); got != "old" {
		t.Errorf("%s has the gates, and agents are asked for two schedules", got)
	}
	old.Status.Schedule = nil // nobody executes it
	if got := scheduleOwner([]v1alpha1.TSNNetwork{*next, *old}); got != "next" {
		t.Errorf("%s has the gates", got)
	}
}

// TestRangesOfTheCluster has networks with addresses of the cluster's pods, nodes and Services. A network with pods keeps its range.
func TestRangesOfTheCluster(t *testing.T) {
	node := func(podCIDR, address string) client.Object {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.NodeSpec{PodCIDRs: []string{podCIDR}},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}}}
	}
	services := func(cidr string) client.Object {
		return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}}}
	}
	for name, test := range map[string]struct {
		objects   []client.Object
		apiServer string
		overlap   string
		served    bool
	}{
		"other ranges":             {objects: []client.Object{node("10.244.1.0/24", "192.0.2.1"), services("10.96.0.0/16")}, apiServer: "10.96.0.1"},
		"pods":                     {objects: []client.Object{node("10.42.1.0/24", "192.0.2.1")}, overlap: "10.42.1.0/24 (pods of node a)"},
		"a node":                   {objects: []client.Object{node("10.244.1.0/24", "10.42.0.7")}, overlap: "10.42.0.7/32 (node a)"},
		"Services":                 {objects: []client.Object{services("10.0.0.0/8")}, overlap: "10.0.0.0/8 (the cluster's Services)"},
		"Services without objects": {apiServer: "10.42.0.1", overlap: "10.42.0.1/32 (the API server's Service)"},
		"pods of a later node":     {objects: []client.Object{node("10.42.1.0/24", "192.0.2.1"), subnetOf("a", "10.42.7.0/24")}, overlap: "10.42.1.0/24 (pods of node a)", served: true},
	} {
		t.Run(name, func(t *testing.T) {
			network := deleted()
			network.DeletionTimestamp, network.Status = nil, v1alpha1.TSNNetworkStatus{}
			r := inCluster(t, append(test.objects, network)...)
			r.ranges.container = ownServices(test.apiServer, "/nonexistent")
			conditions := r.lookAt(t).Status.Conditions
			ready, degraded := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady), meta.FindStatusCondition(conditions, v1alpha1.ConditionDegraded)
			if blocked := ready.Reason == v1alpha1.ReasonOverlaps; blocked != (test.overlap != "" && !test.served) {
				t.Errorf("Ready is %+v", ready)
			}
			if test.overlap != "" && (degraded.Reason != v1alpha1.ReasonOverlaps || !strings.Contains(degraded.Message, "its range 10.42.0.0/16 overlaps "+test.overlap)) {
				t.Errorf("Degraded is %+v, want %s", degraded, test.overlap)
			}
		})
	}
}

// TestForgedPodOpensNoNamespace has pods where none may be on the network: one whose labels and annotations somebody
// wrote by hand, past the webhook, and one that was there when the namespace still might.
func TestForgedPodOpensNoNamespace(t *testing.T) {
	network := deleted()
	network.DeletionTimestamp = nil
	network.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tenant": "a"}}
	before := newAttachment("old", "before")
	before.SetLabels(map[string]string{v1alpha1.NetworkLabel: "old"})
	r := inCluster(t, network, before, aPod("forged"), aPod("before"),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "forged"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "before"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "allowed", Labels: map[string]string{"tenant": "a"}}})
	r.lookAt(t)
	for namespace, want := range map[string]bool{"allowed": true, "before": true, "forged": false} {
		err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "old"}, newAttachment("old", namespace))
		if client.IgnoreNotFound(err) != nil || (err == nil) != want {
			t.Errorf("namespace %s: %v, want an attachment there: %v", namespace, err, want)
		}
	}
}

// TestExcludedNamespaces uses pods of namespaces that the network does not select, and a mirror pod.
func TestExcludedNamespaces(t *testing.T) {
	network := deleted()
	network.DeletionTimestamp = nil
	network.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tenant": "a"}}
	mirror := aPod("allowed")
	mirror.Name, mirror.Annotations[corev1.MirrorPodAnnotationKey] = "mirror", "x"
	other := aPod("other")
	other.Spec.NodeName = "b"
	objects := []client.Object{
		network, aPod("allowed"), mirror, other, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "allowed", Labels: map[string]string{"tenant": "a"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
	}
	r := inCluster(t, objects...)
	for range 2 {
		r.lookAt(t)
	}
	currentNetwork := get(t, r)
	degraded := meta.FindStatusCondition(currentNetwork.Status.Conditions, v1alpha1.ConditionDegraded)
	if currentNetwork.Status.Pods != 1 || degraded == nil || !strings.Contains(degraded.Message, "do not count: other") {
		t.Errorf("the network counts %d pods, and is %+v", currentNetwork.Status.Pods, degraded)
	}
	if parts := r.shared.subnets.forNetwork("old"); parts["a"] == (subnet{}) || parts["b"] != (subnet{}) {
		t.Errorf("the subnets are %v, want one of node a only", parts)
	}
	count := 0
	for events := r.Events.(*record.FakeRecorder).Events; len(events) > 0; {
		if event := <-events; strings.Contains(event, "so the pod does not count") && strings.Contains(event, v1alpha1.ReasonNamespaceNotSelected) {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d Events are about the pod, want 1", count)
	}
	network.Spec.NamespaceSelector = nil
	must(t, r.Client.Update(t.Context(), network))
	r.pace.forget("old")
	if r.lookAt(t); get(t, r).Status.Pods != 2 {
		t.Errorf("the network counts %d pods, want both once it selects all", get(t, r).Status.Pods)
	}
}

func TestInvalidSelectorStatus(t *testing.T) {
	network := deleted()
	network.DeletionTimestamp = nil
	network.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
	have := newAttachment("old", "default")
	have.SetLabels(map[string]string{v1alpha1.NetworkLabel: "old"})
	r := inCluster(t, network, have, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, aPod("default"))
	network = r.lookAt(t)
	ready := meta.FindStatusCondition(network.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != v1alpha1.ReasonSelectorInvalid || !strings.Contains(ready.Message, `spec.namespaceSelector: "Is" is not a valid`) {
		t.Errorf("got %+v", ready)
	}
	if !r.shared.subnets.forNetwork("old")["a"].ipv4.IsValid() {
		t.Errorf("the pods that are on it lose their part: %+v", r.shared.subnets.forNetwork("old"))
	}
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(have), newAttachment("old", "default")); err != nil {
		t.Errorf("their attachment: %v", err)
	}
}

// TestDeletedNodesAreForgotten uses a node without a tunnel address, for which there is one Event.
func TestDeletedNodesAreForgotten(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	network := deleted()
	network.DeletionTimestamp = nil
	r := inCluster(t, node, network, aPod("default"))
	if r.lookAt(t); r.reportedNode["a"] == "" {
		t.Fatal("nothing is said of a node without an address")
	}
	must(t, r.Client.Delete(t.Context(), node))
	r.shared.pods.remove(client.ObjectKeyFromObject(aPod("default")))
	if r.lookAt(t); len(r.reportedNode) > 0 {
		t.Errorf("of nodes that are gone it is kept that %v", r.reportedNode)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
