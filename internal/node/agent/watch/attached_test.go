// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// interfaceOf is an interface of the pod.
func interfaceOf(network string) attachment.Attached {
	return attachment.Attached{Attachment: overlay.Attachment{Network: network, ContainerID: "c", Interface: "tsn0", Identity: "uid"}, Present: true}
}

// TestAttached goes through the life of a pod that names two networks.
func TestAttached(t *testing.T) {
	const byMultus = `[{"name":"cbr0"},{"name":"default/a","interface":"tsn0"},{"name":"default/b","interface":"tsn1"}]`
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "uid", Annotations: map[string]string{v1alpha1.NetworkAnnotation: "a, b"}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{ready}},
	}
	plain := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "plain", Namespace: "default", UID: "plain"}, Status: corev1.PodStatus{PodIP: "192.0.2.1"}}
	cluster := fake.NewClientBuilder().WithObjects(pod, plain).WithStatusSubresource(&corev1.Pod{}).Build()
	events := record.NewFakeRecorder(10)
	now := began
	var interfaces []attachment.Attached
	a := &Attached{Client: cluster, Events: events, Now: func() time.Time { return now },
		Interfaces: func() ([]attachment.Attached, error) { return interfaces, nil }}
	both := []attachment.Attached{interfaceOf("a"), interfaceOf("b")}
	ended, unplugged := interfaceOf("b"), interfaceOf("b")
	ended.Ended, unplugged.Present = true, false
	for _, step := range []struct {
		what             string
		interfaces, next []attachment.Attached // at the first look, and at the second if it differs
		address, multus  string
		want, text       string // reason of the condition, and a part of its message
		event, unchanged bool
	}{
		{what: "its sandbox is being made", interfaces: both[:1]},
		{what: "its sandbox was made without Multus", address: "192.0.2.1", want: v1alpha1.ReasonMultusPassedBy,
			text: "The annotation kubernetsn.io/network names network a, b, and the pod has no interface there", event: true},
		{what: "still", address: "192.0.2.1", want: v1alpha1.ReasonMultusPassedBy, unchanged: true},
		{what: "it has all", address: "192.0.2.1", multus: byMultus, interfaces: both, want: v1alpha1.ReasonAsAsked},
		{what: "still has all", address: "192.0.2.1", multus: byMultus, interfaces: both, want: v1alpha1.ReasonAsAsked, unchanged: true},
		{what: "a sandbox replaces another one", interfaces: both[:1], address: "192.0.2.1", multus: byMultus, next: both, want: v1alpha1.ReasonAsAsked, unchanged: true},
		{what: "one was removed", address: "192.0.2.1", multus: byMultus, interfaces: both[:1], want: v1alpha1.ReasonDetached, text: "names network b,", event: true},
		{what: "its device was removed", address: "192.0.2.1", multus: byMultus, interfaces: append(both[:1:1], unplugged),
			want: v1alpha1.ReasonDetached, unchanged: true},
		{what: "its sandbox has ended", address: "192.0.2.1", multus: byMultus, interfaces: append(both[:1:1], ended), want: v1alpha1.ReasonDetached, unchanged: true},
		{what: "Multus left one out", address: "192.0.2.1", multus: byMultus[:len(byMultus)-35] + "]", interfaces: both[:1], want: v1alpha1.ReasonNotAttached, event: true},
		{what: "it has all again", interfaces: append([]attachment.Attached{ended}, both...), want: v1alpha1.ReasonAsAsked},
	} {
		now = now.Add(time.Hour)
		current := &corev1.Pod{}
		testlab.Must(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(pod), current))
		current.Annotations[podstatus.MultusAnnotation] = step.multus
		testlab.Must(t, cluster.Update(t.Context(), current))
		current.Status.PodIP = step.address
		testlab.Must(t, cluster.Status().Update(t.Context(), current))
		interfaces = step.interfaces
		for range 2 {
			if _, err := a.Reconcile(t.Context(), reconcile.Request{}); err != nil {
				t.Fatalf("%s: %v", step.what, err)
			}
			now = now.Add(lackingFor)
			if step.next != nil {
				interfaces = step.next
			}
		}
		testlab.Must(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(pod), current))
		condition := podstatus.Attached(current)
		if condition == nil {
			condition = &corev1.PodCondition{}
		}
		if condition.Reason != step.want || !strings.Contains(condition.Message, step.text) || (condition.Status == corev1.ConditionTrue) != (step.want == v1alpha1.ReasonAsAsked) {
			t.Errorf("%s: the condition is %+v", step.what, condition)
		}
		if since := condition.LastTransitionTime; step.unchanged && !since.Time.Before(now.Add(-time.Hour)) {
			t.Errorf("%s: the condition was written again", step.what)
		}
		if event := next(events); (event != "") != step.event || step.event && !strings.HasPrefix(event, "Warning TSNInterfaceMissing The annotation kubernetsn.io/network") {
			t.Errorf("%s: the Event is %q", step.what, event)
		}
		if !podstatus.Ready(current) {
			t.Errorf("%s: another condition was changed", step.what)
		}
	}
	testlab.Must(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(plain), plain))
	if condition := podstatus.Attached(plain); condition != nil {
		t.Errorf("a pod on no network has %+v", condition)
	}
}
