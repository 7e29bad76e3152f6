// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
)

// controlled has workload ns/arm, and these objects beside it.
func controlled(t *testing.T, objects ...client.Object) *Workloads {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, AddToScheme(scheme))
	objects = append(objects, &v1alpha1.TSNWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "arm"}})
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.TSNWorkload{}).Build()
	return &Workloads{Client: cluster, Pods: cluster, pace: newPace(time.Now)}
}

func (r *Workloads) lookAt(t *testing.T) (v1alpha1.TSNWorkloadStatus, reconcile.Result) {
	t.Helper()
	request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "arm"}}
	result, err := r.Reconcile(t.Context(), request)
	must(t, err)
	workload := &v1alpha1.TSNWorkload{}
	must(t, r.Client.Get(t.Context(), request.NamespacedName, workload))
	return workload.Status, result
}

// armPod belongs to a workload, and is on network tsn.
func armPod(namespace, name, workload string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.WorkloadLabel: workload},
			Annotations: map[string]string{v1alpha1.NetworkAnnotation: "tsn",
				podstatus.MultusAnnotation: `[{"name":"cbr0","interface":"eth0","ips":["10.0.0.7"]},{"name":"ns/tsn","interface":"tsn0","ips":["10.42.16.7"]}]`}},
		Spec: corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Name: "control", Image: "arm:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.7"}},
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "control", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
	}
}

func TestWorkloadStatus(t *testing.T) {
	status, _ := controlled(t, armPod("ns", "arm-2", "arm"), armPod("ns", "arm-1", "arm"), armPod("ns", "leg", "leg"), armPod("other", "arm-3", "arm")).lookAt(t)
	if status.Total != 2 || status.Ready != 2 || len(status.Pods) != 2 || status.Pods[0].Name != "arm-1" {
		t.Fatalf("said %+v", status)
	}
	got, want := fmt.Sprintf("%+v", status.Pods[1]), "{Name:arm-2 Node:a Phase:Running Ready:true Addresses:[10.0.0.7] "+
		"Networks:[{Network:tsn Interface:tsn0 Addresses:[10.42.16.7]}] Links:[] Containers:[{Name:control Image:arm:1 State:Running}]}"
	if got != want {
		t.Errorf("said %s, want %s", got, want)
	}
}

func TestWorkloadStatusLimit(t *testing.T) {
	var pods []client.Object
	for number := range v1alpha1.MaxWorkloadPods + 5 {
		pods = append(pods, armPod("ns", fmt.Sprintf("arm-%03d", number), "arm"))
	}
	status, _ := controlled(t, pods...).lookAt(t)
	if status.Total != v1alpha1.MaxWorkloadPods+5 || len(status.Pods) != v1alpha1.MaxWorkloadPods {
		t.Errorf("said %d pods, and named %d", status.Total, len(status.Pods))
	}
}

func TestWorkloadPace(t *testing.T) {
	r := controlled(t)
	if status, result := r.lookAt(t); status.Total != 0 || result.RequeueAfter != 0 {
		t.Fatalf("without pods: %+v, %v", status, result)
	}
	for number, name := range []string{"arm-1", "arm-2"} {
		must(t, r.Client.Create(t.Context(), armPod("ns", name, "arm")))
		status, result := r.lookAt(t)
		if status.Total != 1 || (result.RequeueAfter > 0) != (number == 1) {
			t.Errorf("after %s: %d pods, again after %v", name, status.Total, result.RequeueAfter)
		}
	}
}

func TestDeletedWorkload(t *testing.T) {
	r := controlled(t)
	request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "leg"}}
	if result, err := r.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != 0 {
		t.Errorf("got %v, %v", result, err)
	}
}

// armLink leads from a client to an endpoint of a service.
func armLink(namespace, service, clientUID, endpointUID string, conditions ...string) *v1alpha1.TSNLink {
	link := &v1alpha1.TSNLink{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: service + "-" + clientUID}}
	link.Spec.Service = service
	link.Spec.Client = v1alpha1.LinkEnd{Cluster: "east", Namespace: "ns", Pod: "arm-1", UID: clientUID, Interface: "bus0", Addresses: []string{"10.200.0.0/31"}}
	link.Spec.Endpoint = v1alpha1.LinkEnd{Cluster: "west", Namespace: "ns", Pod: "plc", UID: endpointUID, Interface: "line0", Addresses: []string{"10.200.0.1/31"}}
	for _, kind := range conditions {
		link.Status.Conditions = append(link.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue})
	}
	return link
}

func TestWorkloadLinks(t *testing.T) {
	pod := armPod("ns", "arm-1", "arm")
	pod.UID = "one"
	pod.Labels[v1alpha1.ClientLabelPrefix+"bus"] = "bus0"
	pod.Labels[v1alpha1.ClientLabelPrefix+"store.other"] = "store0"
	endpoint := armPod("ns", "plc", "arm")
	endpoint.UID = "two"
	endpoint.Labels[v1alpha1.EndpointLabelPrefix+"line"] = "line"
	status, _ := controlled(t, pod, endpoint, armLink("ns", "bus", "one", "far", v1alpha1.ConditionUp),
		armLink("other", "line", "far", "two", v1alpha1.ConditionEndpointPlugged), armLink("ns", "bus", "stranger", "far")).lookAt(t)
	for number, want := range [][]v1alpha1.WorkloadLink{{
		{Service: "bus", Client: true, Interface: "bus0", Addresses: []string{"10.200.0.0/31"}, Peer: "west/ns/plc", Up: true},
		{Service: "store.other", Client: true, Interface: "store0"},
	}, {
		{Service: "line.other", Interface: "line0", Addresses: []string{"10.200.0.1/31"}, Peer: "east/ns/arm-1", Up: true},
	}} {
		if got := status.Pods[number].Links; !reflect.DeepEqual(got, want) {
			t.Errorf("pod %s has %+v, want %+v", status.Pods[number].Name, got, want)
		}
	}
}

func TestWorkloadsOfLink(t *testing.T) {
	pod := armPod("ns", "arm-1", "arm")
	pod.UID = "one"
	r := controlled(t, pod)
	got := r.workloadsOfLink(t.Context(), armLink("ns", "bus", "one", "far"))
	if len(got) != 1 || got[0].NamespacedName != (types.NamespacedName{Namespace: "ns", Name: "arm"}) {
		t.Errorf("got %v", got)
	}
	for _, stranger := range []client.Object{armLink("ns", "bus", "another", "far"), pod} {
		if got := r.workloadsOfLink(t.Context(), stranger); len(got) > 0 {
			t.Errorf("of %s got %v", stranger.GetName(), got)
		}
	}
}
