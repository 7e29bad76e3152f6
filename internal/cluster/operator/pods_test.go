// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"

	nettypes "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
)

// podOn is a pod on networks; node may be "".
func podOn(name, networks, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns-" + name[:1], Annotations: map[string]string{v1alpha1.NetworkAnnotation: networks}},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

func TestPodIndexCounts(t *testing.T) {
	index := newPodIndex()
	attached := podOn("a1", "x", "node-1")
	attached.Annotations[podstatus.MultusAnnotation] = "known"
	ends := podOn("a2", "x,y", "node-1")
	ends.DeletionTimestamp = &metav1.Time{}
	set := func(pod *corev1.Pod) func() differences { return func() differences { return index.set(pod) } }
	remove := func(key types.NamespacedName) func() differences {
		return func() differences { return index.remove(key) }
	}
	for _, step := range []struct {
		what          string
		do            func() differences
		networks      string
		total         int32
		nodes, spaces string
		waiting       int
	}{
		{"a pod without a node", set(podOn("a1", "x", "")), "map[x:true]", 1, "map[]", "map[ns-a:1]", 0},
		{"its node", set(podOn("a1", "x", "node-1")), "map[x:true]", 1, "map[node-1:1]", "map[ns-a:1]", 1},
		{"the same again", set(podOn("a1", "x", "node-1")), "map[]", 1, "map[node-1:1]", "map[ns-a:1]", 1},
		{"another of two networks", set(podOn("a2", "x,y", "node-1")), "map[x:false y:true]", 2, "map[node-1:2]", "map[ns-a:2]", 2},
		{"one of another namespace", set(podOn("b1", "y, x", "node-2")), "map[x:true y:true]", 3, "map[node-1:2 node-2:1]", "map[ns-a:2 ns-b:1]", 3},
		{"one that is attached", set(attached), "map[]", 3, "map[node-1:2 node-2:1]", "map[ns-a:2 ns-b:1]", 2},
		{"one that ends", set(ends), "map[]", 3, "map[node-1:2 node-2:1]", "map[ns-a:2 ns-b:1]", 1},
		{"one with a label and no name", set(podOn("c1", "", "node-3")), "map[]", 3, "map[node-1:2 node-2:1]", "map[ns-a:2 ns-b:1]", 1},
		{"one that moved to another network", set(podOn("b1", "y", "node-2")), "map[x:true y:true]", 2, "map[node-1:2]", "map[ns-a:2]", 0},
		{"one that has gone", remove(types.NamespacedName{Namespace: "ns-a", Name: "a2"}), "map[x:false y:true]", 1, "map[node-1:1]", "map[ns-a:1]", 0},
		{"one that nobody knows", remove(types.NamespacedName{Namespace: "ns-a", Name: "a2"}), "map[]", 1, "map[node-1:1]", "map[ns-a:1]", 0},
		{"the last", remove(types.NamespacedName{Namespace: "ns-a", Name: "a1"}), "map[x:true]", 0, "map[]", "map[]", 0},
	} {
		if got := fmt.Sprint(step.do()); got != step.networks {
			t.Errorf("%s: looked at are %s, want %s", step.what, got, step.networks)
		}
		used := index.usage("x", nil)
		if nodes, spaces := fmt.Sprint(used.onNode), fmt.Sprint(used.namespaces); used.total != step.total || nodes != step.nodes || spaces != step.spaces {
			t.Errorf("%s: %d pods, %s, %s, want %d, %s, %s", step.what, used.total, nodes, spaces, step.total, step.nodes, step.spaces)
		}
		if waiting := index.waiting("x", []string{"node-1", "node-2"}); len(waiting) != step.waiting {
			t.Errorf("%s: %d pods wait, want %d", step.what, len(waiting), step.waiting)
		}
	}
	if index.markReported(attached, "x") {
		t.Error("a pod that is gone is told something")
	}
	if used := index.usage("x", nil); used.total != 0 || len(index.used) != 1 || !reflect.DeepEqual(index.names("y", nil), []string{"ns-b/b1"}) {
		t.Errorf("at last there are %+v, %v", used, index.names("y", nil))
	}
}

func TestPodIndexCountsDetached(t *testing.T) {
	index := newPodIndex()
	pod := podOn("a1", "x", "node-1")
	index.set(pod)
	for _, step := range []struct {
		status   corev1.ConditionStatus
		detached int32
	}{{corev1.ConditionFalse, 1}, {corev1.ConditionFalse, 1}, {corev1.ConditionTrue, 0}, {corev1.ConditionFalse, 1}} {
		changed := pod.DeepCopy()
		changed.Status.Conditions = []corev1.PodCondition{{Type: v1alpha1.ConditionAttached, Status: step.status, Message: "text"}}
		slim, err := slimPod(changed)
		must(t, err)
		index.set(slim.(*corev1.Pod))
		if used := index.usage("x", nil); used.detached != step.detached || used.total != 1 || used.onNode["node-1"] != 1 {
			t.Errorf("condition %s: the usage is %+v", step.status, used)
		}
	}
	index.remove(types.NamespacedName{Namespace: "ns-a", Name: "a1"})
	if used := index.usage("x", nil); used.detached != 0 || used.total != 0 {
		t.Errorf("at last the usage is %+v", used)
	}
}

func TestSlimPodKeepsHardwareAddresses(t *testing.T) {
	for text, keeps := range map[string]bool{
		`[{"name":"x","mac":"02:00:00:00:00:01"}]`:      true,
		`[{"name":"x","m\u0061c":"02:00:00:00:00:01"}]`: true,
		`[{"name":"x","MAC":"02:00:00:00:00:01"}]`:      true,
		`[{"name":"mac","interface":"tsn0"}]`:           false,
		`[null]`:                                        false, "x": false, "": false,
	} {
		pod := podOn("a1", "x", "node-1")
		pod.Annotations[nettypes.NetworkAttachmentAnnot], pod.Status.Phase = text, corev1.PodSucceeded
		slim, err := slimPod(pod)
		must(t, err)
		if kept := slim.(*corev1.Pod); (kept.Annotations[nettypes.NetworkAttachmentAnnot] == text && text != "") != keeps || kept.Status.Phase != corev1.PodSucceeded {
			t.Errorf("%s: kept are %v and phase %q", text, kept.Annotations, kept.Status.Phase)
		}
	}
}

// TestMarkReported reconciles a network repeatedly that has no subnet for a pod's node.
func TestMarkReported(t *testing.T) {
	network := deleted()
	network.DeletionTimestamp, network.Status = nil, v1alpha1.TSNNetworkStatus{}
	network.Spec.IPv4 = v1alpha1.Range4{CIDR: "10.42.0.0/24", NodePrefixLength: 24}
	first, second := aPod("first"), aPod("second")
	second.Spec.NodeName = "b"
	r := inCluster(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, network, first, second)
	toPods := func() (count int) {
		events := r.Events.(*record.FakeRecorder).Events
		for len(events) > 0 {
			if strings.Contains(<-events, v1alpha1.ReasonRangeUsedUp) {
				count++
			}
		}
		return count
	}
	r.lookAt(t)
	if count := toPods(); count != 2 { // the pod on node b, and the network
		t.Errorf("%d Events say it first, want 2", count)
	}
	r.lookAt(t)
	if count := toPods(); count != 0 {
		t.Errorf("%d Events say it again", count)
	}
	second.Spec.NodeName = "c" // it is another pod of the name
	must(t, r.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c"}}))
	r.shared.pods.set(second)
	r.lookAt(t)
	if count := toPods(); count != 2 {
		t.Errorf("%d Events say it of the pod on another node, want 2", count)
	}
}

func TestAbbreviate(t *testing.T) {
	if names := abbreviate(slices.Repeat([]string{"a"}, 7)); fmt.Sprint(names) != "[a a a a a and 2 more]" {
		t.Errorf("seven are named %q", names)
	}
}

// nodesNamed returns the names of count nodes.
func nodesNamed(count int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range count {
			if !yield(fmt.Sprintf("node-%04d", i)) {
				return
			}
		}
	}
}
