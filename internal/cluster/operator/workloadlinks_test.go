// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

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
