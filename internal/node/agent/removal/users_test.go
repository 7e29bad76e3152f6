// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func pod(name, annotation string, phase corev1.PodPhase, drivers ...string) *corev1.Pod {
	created := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "here", Annotations: map[string]string{networksAnnotation: annotation}},
		Status:     corev1.PodStatus{Phase: phase},
	}
	for _, driver := range drivers {
		created.Spec.Volumes = append(created.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driver}}})
	}
	return created
}

var ours = []Network{{"system", "tsn"}, {"here", "local"}}

func TestPodsInUse(t *testing.T) {
	client := fake.NewClientset(
		pod("volume", "", corev1.PodRunning, "other.io", "csi.kubernetsn.io"),
		pod("other-volume", "", corev1.PodRunning, "other.io"),
		pod("network", "other/tsn, system/tsn@tsn0", corev1.PodPending),
		pod("own-namespace", "local", corev1.PodRunning),
		pod("other-network", "other/tsn,tsn", corev1.PodRunning),
		pod("json", `[{"name":"x"},{"name":"tsn","namespace":"system","interface":"a"}]`, corev1.PodRunning),
		pod("spoilt-json", `[{"name":`, corev1.PodRunning),
		pod("ended", "system/tsn", corev1.PodSucceeded, "csi.kubernetsn.io"),
	)
	names, err := podsInUse(t.Context(), client, "csi.kubernetsn.io", ours)
	if err != nil || !slices.Equal(names, []string{"here/json", "here/network", "here/own-namespace", "here/volume"}) {
		t.Errorf("found %q, %v", names, err)
	}
}

func TestPodsByNode(t *testing.T) {
	var objects []runtime.Object
	for name, change := range map[string]func(*corev1.Pod){
		"first": func(*corev1.Pod) {}, "ended": func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"host": func(p *corev1.Pod) { p.Spec.HostNetwork = true }, "elsewhere": func(p *corev1.Pod) { p.Spec.NodeName = "b" },
	} {
		created := pod(name, "", corev1.PodRunning)
		created.UID, created.Spec.NodeName = types.UID(name), "a"
		change(created)
		objects = append(objects, created)
	}
	uids, err := podsByNode(t.Context(), fake.NewClientset(objects...))
	if err != nil || fmt.Sprint(uids) != "map[a:[first] b:[elsewhere]]" {
		t.Errorf("found %v, %v", uids, err)
	}
}

func TestRemoveRefusesWhileInUse(t *testing.T) {
	daemons := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "ktsnd", Namespace: "system"}}
	client := fake.NewClientset(pod("user", "system/tsn", corev1.PodRunning), daemons)
	c := &Cluster{Client: client, Namespace: "system", DaemonSets: []string{"ktsnd", "ktsnd-ovs", "ktsn-agent", "ktsn-agent-ovs"}, Driver: "csi.kubernetsn.io", Networks: ours, Out: io.Discard}
	if err := c.Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "here/user; delete them first, nothing was removed") {
		t.Errorf("said %v", err)
	}
	for _, action := range client.Actions() {
		if action.GetVerb() != "list" {
			t.Errorf("did %s %s", action.GetVerb(), action.GetResource().Resource)
		}
	}
}

func TestInUseErrorIsShort(t *testing.T) {
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprint("p", i))
	}
	if got := inUseError(names).Error(); !strings.Contains(got, "p19 and 10 more; delete") || strings.Contains(got, "p20") {
		t.Errorf("said %s", got)
	}
}

func TestCleaningPodKnowsPods(t *testing.T) {
	client := fake.NewClientset()
	c := &Cluster{Client: client, Namespace: "system", Pod: &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{"clean-node"}}}}}}
	testlab.Must(t, c.startCleaning(t.Context(), "a", []string{"first", "second"}))
	started, err := client.CoreV1().Pods("system").Get(t.Context(), podName("a"), metav1.GetOptions{})
	testlab.Must(t, err)
	if got := started.Spec.Containers[0].Args; !slices.Equal(got, []string{"clean-node", "--pods=first,second"}) {
		t.Errorf("its arguments are %q", got)
	}
}
