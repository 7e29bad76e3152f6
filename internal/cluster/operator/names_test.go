// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
)

// talker is a pod on network old.
func talker(namespace, name, app string, ready corev1.ConditionStatus, addresses ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app, v1alpha1.PodLabel: v1alpha1.LabelValue},
			Annotations: map[string]string{v1alpha1.NetworkAnnotation: "old",
				podstatus.MultusAnnotation: fmt.Sprintf(`[{"name":"cbr0","ips":["10.244.0.9"]},{"name":"%s/old","interface":"tsn0","ips":["%s"]}]`, namespace, strings.Join(addresses, `","`))}},
		Spec:   corev1.PodSpec{NodeName: "a", Hostname: name},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

// named is a Service with a name for pods on network old.
func named() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "talkers", UID: "u", Labels: map[string]string{v1alpha1.NetworkAnnotation: "old"},
			Annotations: map[string]string{v1alpha1.SelectorAnnotation: "app=talker"}},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "data", Protocol: corev1.ProtocolUDP, Port: 7788}}},
	}
}

func namesIn(t *testing.T, objects ...client.Object) *Names {
	network := deleted()
	network.DeletionTimestamp, network.Spec.IPv6 = nil, &v1alpha1.Range6{CIDR: "fd42::/48"}
	cluster := inCluster(t, append(objects, network)...).Client
	return &Names{Client: cluster, live: cluster, events: record.NewFakeRecorder(10), pace: newPace(time.Now), reported: map[types.NamespacedName]string{}}
}

// written reconciles the Service, and returns the endpoints of its slices.
func (r *Names) written(t *testing.T) (endpoints []string) {
	t.Helper()
	r.pace.forget("ns/talkers")
	_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "talkers"}})
	must(t, err)
	var list discoveryv1.EndpointSliceList
	must(t, r.Client.List(t.Context(), &list))
	for i := range list.Items {
		slice := &list.Items[i]
		if slice.Namespace != "ns" || slice.Labels[discoveryv1.LabelServiceName] != "talkers" || slice.OwnerReferences[0].UID != "u" || *slice.Ports[0].Port != 7788 {
			t.Errorf("the slice is %+v", slice)
		}
		for j := range slice.Endpoints {
			endpoint := &slice.Endpoints[j]
			endpoints = append(endpoints, fmt.Sprint(slice.Name, " ", endpoint.Addresses, " ", *endpoint.Hostname, " ", *endpoint.Conditions.Ready))
		}
	}
	slices.Sort(endpoints)
	return endpoints
}

func TestNames(t *testing.T) {
	first, ended := talker("ns", "talker-0", "talker", corev1.ConditionTrue, "10.42.1.2", "fd42::2"), talker("ns", "ended", "talker", corev1.ConditionFalse, "10.42.1.5")
	ended.Status.Phase = corev1.PodSucceeded
	r := namesIn(t, named(), first, ended, talker("ns", "talker-1", "talker", corev1.ConditionFalse, "10.42.1.3"),
		talker("ns", "other", "listener", corev1.ConditionTrue, "10.42.1.4"),
		talker("foreign", "talker-2", "talker", corev1.ConditionTrue, "10.42.1.6"),
		talker("ns", "forged", "talker", corev1.ConditionTrue, "10.96.0.1"))
	want := []string{"talkers-tsn-ipv4-0 [10.42.1.2] talker-0 true", "talkers-tsn-ipv4-0 [10.42.1.3] talker-1 false", "talkers-tsn-ipv6-0 [fd42::2] talker-0 true"}
	for range 2 {
		if got := r.written(t); !slices.Equal(got, want) {
			t.Errorf("the endpoints are %q, want %q", got, want)
		}
	}
	must(t, r.Client.Delete(t.Context(), first))
	if got := r.written(t); !slices.Equal(got, want[1:2]) {
		t.Errorf("after a pod has gone the endpoints are %q, want %q", got, want[1:2])
	}
	must(t, r.Client.Delete(t.Context(), named()))
	if got := r.written(t); len(got) > 0 {
		t.Errorf("without the Service the endpoints are %q", got)
	}
}

// TestNamesOfServiceThatLostItsLabel starts an operator that missed the change.
func TestNamesOfServiceThatLostItsLabel(t *testing.T) {
	r := namesIn(t, named(), talker("ns", "talker-0", "talker", corev1.ConditionTrue, "10.42.1.2"))
	r.written(t)
	other := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "others",
		Labels: map[string]string{discoveryv1.LabelServiceName: "others", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"}}}
	must(t, errors.Join(r.Client.Create(t.Context(), other), r.Client.Delete(t.Context(), named())))
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	must(t, r.start(t.Context(), queue))
	if queue.Len() != 1 {
		t.Fatalf("%d Services are enqueued, want 1", queue.Len())
	}
	request, _ := queue.Get()
	_, err := r.Reconcile(t.Context(), request)
	must(t, err)
	var list discoveryv1.EndpointSliceList
	must(t, r.Client.List(t.Context(), &list))
	if len(list.Items) != 1 || list.Items[0].Name != "others" {
		t.Errorf("the slices are %+v", list.Items)
	}
}

func TestInvalidNames(t *testing.T) {
	for text, change := range map[string]func(*corev1.Service){
		"recreate it with clusterIP: None":                        func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.0.7" },
		"move the selector to the annotation":                     func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "talker"} },
		"and no annotation kubernetsn.io/selector":                func(s *corev1.Service) { s.Annotations = nil },
		"annotation kubernetsn.io/selector: ":                     func(s *corev1.Service) { s.Annotations[v1alpha1.SelectorAnnotation] = "=a=" },
		"label kubernetsn.io/network: there is no TSNNetwork new": func(s *corev1.Service) { s.Labels[v1alpha1.NetworkAnnotation] = "new" },
	} {
		service := named()
		change(service)
		r := namesIn(t, service, talker("ns", "talker-0", "talker", corev1.ConditionTrue, "10.42.1.2"))
		for range 2 {
			if got := r.written(t); len(got) > 0 {
				t.Errorf("%s: the endpoints are %q", text, got)
			}
		}
		events := r.events.(*record.FakeRecorder).Events
		if len(events) != 1 {
			t.Fatalf("%s: there are %d Events", text, len(events))
		}
		if event := <-events; !strings.Contains(event, "ServiceInvalid") || !strings.Contains(event, text) {
			t.Errorf("the Event is %q, want %q", event, text)
		}
	}
}
