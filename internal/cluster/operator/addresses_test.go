// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// requesting returns a pod of an age in seconds that requests addresses of network old. Its UID is its name.
func requesting(namespace, name, node string, age int, ips string) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Unix(1e6-int64(age), 0)),
		Labels:      map[string]string{v1alpha1.PodLabel: v1alpha1.LabelValue},
		Annotations: map[string]string{v1alpha1.NetworkAnnotation: "old", "k8s.v1.cni.cncf.io/networks": `[{"name": "old", "ips": [` + ips + `]}]`},
	}, Spec: corev1.PodSpec{NodeName: node}}
}

func TestAssign(t *testing.T) {
	ended := requesting("line", "ended", "a", 9, `"10.42.255.7"`)
	ended.Status.Phase = corev1.PodSucceeded
	elsewhere := requesting("line", "elsewhere", "a", 9, `"10.42.255.7"`)
	elsewhere.Annotations[v1alpha1.NetworkAnnotation] = "other"
	held := heldAddresses{"a": {{Address: "10.42.255.7", Pod: "line/plc-0", UID: "plc-0"}}}
	successor := func(ips string) corev1.Pod {
		pod := requesting("line", "plc-0", "a", 1, ips)
		pod.UID = "second"
		return pod
	}
	var many []corev1.Pod
	var full strings.Builder
	for i := range v1alpha1.MaxNodeAddresses + 1 {
		many = append(many, requesting("line", fmt.Sprintf("p%02d", i), "a", 100-i, fmt.Sprintf(`"10.42.255.%d"`, 100+i)))
		if i < v1alpha1.MaxNodeAddresses {
			fmt.Fprintf(&full, " {10.42.255.%d line/p%02d p%02d}", 100+i, i, i)
		}
	}
	for name, test := range map[string]struct {
		held       heldAddresses
		pods       []corev1.Pod
		namespaces namespaceSet
		want       string
	}{
		"a pod that requests one":               {pods: []corev1.Pod{requesting("line", "plc-0", "a", 1, `"10.42.255.7/16"`)}, want: "map[a:[{10.42.255.7 line/plc-0 plc-0}]]"},
		"a pod without a node":                  {pods: []corev1.Pod{requesting("line", "plc-0", "", 1, `"10.42.255.7"`)}, want: "map[]"},
		"pods that have ended or are not on it": {pods: []corev1.Pod{ended, elsewhere}, want: "map[]"},
		"a namespace that may not be on it":     {pods: []corev1.Pod{requesting("line", "plc-0", "a", 1, `"10.42.255.7"`)}, namespaces: namespaceSet{"other": true}, want: "map[]"},
		"an address of a node's subnet":         {pods: []corev1.Pod{requesting("line", "plc-0", "a", 1, `"10.42.1.7"`)}, want: "map[]"},
		"the older of two pods": {pods: []corev1.Pod{requesting("x", "young", "a", 1, `"10.42.255.7"`), requesting("y", "old", "b", 2, `"10.42.255.7"`)},
			want: "map[b:[{10.42.255.7 y/old old}]]"},
		"the owner before an older pod": {held: held, pods: []corev1.Pod{requesting("line", "plc-0", "a", 1, `"10.42.255.7"`), requesting("y", "old", "b", 2, `"10.42.255.7"`)},
			want: "map[a:[{10.42.255.7 line/plc-0 plc-0}]]"},
		"an owner that requests nothing any more": {held: held, pods: []corev1.Pod{requesting("line", "plc-0", "a", 1, ""), requesting("y", "old", "b", 2, `"10.42.255.7"`)},
			want: "map[a:[{10.42.255.7 line/plc-0 plc-0}]]"},
		"an owner on another node":                      {held: held, pods: []corev1.Pod{requesting("line", "plc-0", "b", 1, `"10.42.255.7"`)}, want: "map[b:[{10.42.255.7 line/plc-0 plc-0}]]"},
		"an owner that is gone":                         {held: held, pods: []corev1.Pod{requesting("y", "other", "b", 1, `"10.42.255.7"`)}, want: "map[b:[{10.42.255.7 y/other other}]]"},
		"a successor of its name that requests another": {held: held, pods: []corev1.Pod{successor(`"10.42.255.8"`)}, want: "map[a:[{10.42.255.8 line/plc-0 second}]]"},
		"a successor of its name that requests none":    {held: held, pods: []corev1.Pod{successor("")}, want: "map[]"},
		"a successor of its name, and an older pod": {held: held, pods: []corev1.Pod{successor(`"10.42.255.7"`), requesting("y", "old", "b", 2, `"10.42.255.7"`)},
			want: "map[b:[{10.42.255.7 y/old old}]]"},
		"both families": {pods: []corev1.Pod{requesting("line", "plc-0", "a", 1, `"10.42.255.7", "fd42:0:0:ffff::7/48"`)},
			want: "map[a:[{10.42.255.7 line/plc-0 plc-0} {fd42:0:0:ffff::7 line/plc-0 plc-0}]]"},
		"more than one of a family": {held: held, pods: []corev1.Pod{requesting("line", "plc-0", "a", 1, `"10.42.255.8", "fd42:0:0:ffff::7", "fd42:0:0:ffff::8"`)},
			want: "map[a:[{10.42.255.7 line/plc-0 plc-0} {fd42:0:0:ffff::7 line/plc-0 plc-0}]]"},
		"more than a node may have": {pods: many, want: "map[a:[" + full.String()[1:] + "]]"},
	} {
		t.Run(name, func(t *testing.T) {
			usable := func(address netip.Addr) bool {
				return netip.MustParsePrefix("10.42.255.0/24").Contains(address) || netip.MustParsePrefix("fd42:0:0:ffff::/64").Contains(address)
			}
			if got := fmt.Sprint(map[string][]v1alpha1.PodAddress(assign("old", test.held, test.pods, test.namespaces, usable))); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestStaticAddressFollowsPod moves a pod from node a to node b, and gives node a's subnet the range before.
func TestStaticAddressFollowsPod(t *testing.T) {
	var objects []client.Object
	for i, name := range []string{"a", "b"} {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.NodeLabel: v1alpha1.LabelValue}},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", i+1)}}}},
			&v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.TSNNodeSpec{Networks: []v1alpha1.NodeNetwork{{Name: "old", IPv4: fmt.Sprintf("10.42.%d.0/24", i)}}}})
	}
	network := deleted()
	network.DeletionTimestamp, network.Spec.IPv4.Static = nil, "10.42.1.0/24"
	pod := requesting("line", "plc-0", "a", 1, `"10.42.255.7", "10.42.1.9"`)
	n := inCluster(t, append(objects, network, &pod)...)
	now := time.Now()
	r := &Peers{Client: n.Client, shared: n.shared, pace: newPace(func() time.Time { return now })}
	expect := func(what, want string) {
		t.Helper()
		now = now.Add(time.Minute)
		_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(network)})
		must(t, err)
		peers := &v1alpha1.TSNPeers{}
		must(t, r.Client.Get(t.Context(), client.ObjectKey{Name: "old-0"}, peers))
		var written strings.Builder
		for _, node := range peers.Spec.Nodes {
			fmt.Fprint(&written, node.Name, node.Addresses)
		}
		if got := written.String(); got != want {
			t.Errorf("%s: the peers are %s, want %s", what, got, want)
		}
	}
	expect("in the subnet of node b", "a[]b[]")
	must(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(network), network))
	network.Spec.IPv4.Static = "10.42.255.0/24"
	must(t, r.Client.Update(t.Context(), network))
	expect("on node a", "a[{10.42.255.7 line/plc-0 plc-0}]b[]")
	r.held = nil // another operator
	expect("after a restart", "a[{10.42.255.7 line/plc-0 plc-0}]b[]")
	must(t, r.Client.Delete(t.Context(), &pod))
	expect("without the pod", "a[]b[]")
	moved := requesting("line", "plc-0", "b", 1, `"10.42.255.7"`)
	must(t, r.Client.Create(t.Context(), &moved))
	expect("on node b", "a[]b[{10.42.255.7 line/plc-0 plc-0}]")
}
