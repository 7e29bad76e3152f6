// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

var errNotYet = errors.New("not yet")

func selector(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func attachment(namespace string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "k8s.cni.cncf.io", Version: "v1", Kind: "NetworkAttachmentDefinition"})
	object.SetName("attach")
	object.SetNamespace(namespace)
	return object
}

// condition waits until a network's condition has a status, a reason, and texts in its message, which it returns.
func condition(ctx context.Context, t *testing.T, network *v1alpha1.TSNNetwork, kind string, status metav1.ConditionStatus, reason string, texts ...string) string {
	t.Helper()
	message := ""
	await(ctx, t, network, func() error {
		got := meta.FindStatusCondition(network.Status.Conditions, kind)
		isMissing := func(text string) bool { return !strings.Contains(got.Message, text) }
		if got == nil || got.Status != status || got.Reason != reason || slices.ContainsFunc(texts, isMissing) {
			return fmt.Errorf("%s of %s is %+v, want %s, %s, %q", kind, network.Name, got, status, reason, texts)
		}
		message = got.Message
		return nil
	})
	return message
}

func awaitNodeLabel(ctx context.Context, t *testing.T, node *corev1.Node, want bool) {
	t.Helper()
	await(ctx, t, node, func() error {
		if isActive := node.Labels[v1alpha1.NodeLabel] == v1alpha1.LabelValue; isActive != want {
			return fmt.Errorf("node %s is labelled: %v, want %v", node.Name, isActive, want)
		}
		return nil
	})
}

func TestNodeLabel(t *testing.T) {
	ctx := needOperator(t)
	first, second := newNode("label-1"), newNode("label-2")
	create(ctx, t, first, second, newNetwork("label", 201, "10.201.0.0/16"))
	create(ctx, t, plainPod("plain", "default"))
	firstPod, secondPod := onNetwork("label-one", "default", "label", "label-1"), onNetwork("label-two", "default", "label", "label-1")
	create(ctx, t, firstPod, secondPod)
	awaitNodeLabel(ctx, t, first, true)
	remove(ctx, t, firstPod)
	time.Sleep(3 * linger)
	awaitNodeLabel(ctx, t, first, true)
	awaitNodeLabel(ctx, t, second, false)
	// A terminating pod counts until its object is deleted.
	must(t, admin.Delete(ctx, secondPod))
	time.Sleep(3 * linger)
	awaitNodeLabel(ctx, t, first, true)
	remove(ctx, t, secondPod)
	awaitNodeLabel(ctx, t, first, false)
}

// TestNames waits for the EndpointSlice of a Service, which follows its pods.
func TestNames(t *testing.T) {
	ctx := needOperator(t)
	pod := onNetwork("named-0", "default", "named", "")
	pod.Labels = map[string]string{"app": "named"}
	pod.Annotations["k8s.v1.cni.cncf.io/network-status"] = `[{"name":"default/named","interface":"tsn0","ips":["10.228.1.7"]}]`
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "named", Labels: map[string]string{v1alpha1.NetworkAnnotation: "named"},
		Annotations: map[string]string{v1alpha1.SelectorAnnotation: "app=named"}},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Ports: []corev1.ServicePort{{Name: "data", Port: 7788, Protocol: corev1.ProtocolUDP}}}}
	create(ctx, t, newNetwork("named", 288, "10.228.0.0/16"), service, pod)
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "named-tsn-ipv4-0"}}
	await(ctx, t, slice, func() error {
		if len(slice.Endpoints) != 1 || slice.Endpoints[0].Addresses[0] != "10.228.1.7" || slice.Labels[discoveryv1.LabelServiceName] != "named" {
			return fmt.Errorf("the slice is %+v: %w", slice, errNotYet)
		}
		return nil
	})
	remove(ctx, t, pod)
	awaitGone(ctx, t, slice)
}

func TestSubnetAllocation(t *testing.T) {
	ctx := needOperator(t)
	network := newNetwork("parts", 202, "10.202.0.0/23")
	create(ctx, t, newNode("parts-1"), newNode("parts-2"), newNode("parts-3"), network)
	firstPod, secondPod := onNetwork("parts-one", "default", "parts", "parts-1"), onNetwork("parts-two", "default", "parts", "parts-2")
	create(ctx, t, firstPod)
	awaitState(ctx, t, stateOf("parts-1"), "parts=10.202.0.0/24,1 gates=")
	create(ctx, t, secondPod)
	awaitState(ctx, t, stateOf("parts-2"), "parts=10.202.1.0/24,1 gates=")
	condition(ctx, t, network, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNodeWaited)
	thirdPod := onNetwork("parts-three", "default", "parts", "parts-3")
	create(ctx, t, thirdPod)
	condition(ctx, t, network, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonRangeUsedUp, "no addresses of network parts are left for the nodes parts-3")
	awaitEvent(ctx, t, "default", "parts-three", v1alpha1.ReasonRangeUsedUp)
	awaitState(ctx, t, stateOf("parts-1"), "parts=10.202.0.0/24,1 gates=")
	awaitState(ctx, t, stateOf("parts-2"), "parts=10.202.1.0/24,1 gates=")
	// The third node gets the subnet that the first has released.
	remove(ctx, t, firstPod)
	awaitState(ctx, t, stateOf("parts-3"), "parts=10.202.0.0/24,1 gates=")
	condition(ctx, t, network, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsAsked)
}

// awaitEvent waits for an Event of an object.
func awaitEvent(ctx context.Context, t *testing.T, namespace, name, reason string) {
	t.Helper()
	eventually(ctx, t, func() error {
		var events corev1.EventList
		if err := admin.List(ctx, &events, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.InvolvedObject.Name == name && event.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("no Event %s for %s among %d", reason, name, len(events.Items))
	})
}

func TestAttachmentsFollowNamespaces(t *testing.T) {
	ctx := needOperator(t)
	network := newNetwork("attach", 204, "10.204.0.0/16")
	network.Spec.NamespaceSelector = selector("attach", "yes")
	foreign := attachment("attach-foreign")
	allowed, other := newNamespace("attach-allowed", map[string]string{"attach": "yes"}), newNamespace("attach-other", nil)
	create(ctx, t, allowed, other, newNamespace("attach-foreign", map[string]string{"attach": "yes"}), foreign, network)
	eventually(ctx, t, func() error { return get(ctx, attachment("attach-allowed")) })
	condition(ctx, t, network, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonForeignAttachment, "attach-foreign")
	if err := get(ctx, attachment("attach-other")); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace that may not has an attachment: %v", err)
	}
	other.Labels = map[string]string{"attach": "yes"}
	must(t, admin.Update(ctx, other))
	eventually(ctx, t, func() error { return get(ctx, attachment("attach-other")) })
	pod := onNetwork("attach-one", "attach-allowed", "attach", "")
	create(ctx, t, pod)
	selects := func(labels map[string]string) {
		t.Helper()
		current(ctx, t, allowed)
		allowed.Labels = labels
		must(t, admin.Update(ctx, allowed))
	}
	count := func(want int32) {
		t.Helper()
		await(ctx, t, network, func() error {
			if network.Status.Pods != want {
				return fmt.Errorf("the network counts %d pods, want %d", network.Status.Pods, want)
			}
			return nil
		})
	}
	count(1)
	// A pod of a namespace that is not selected any more does not count, and keeps its attachment.
	selects(nil)
	count(0)
	awaitEvent(ctx, t, "attach-allowed", "attach-one", v1alpha1.ReasonNamespaceNotSelected)
	if err := get(ctx, attachment("attach-allowed")); err != nil {
		t.Errorf("the attachment of a pod has gone: %v", err)
	}
	selects(map[string]string{"attach": "yes"})
	count(1)
	// A pod is on it, so network and attachment stay until it has gone.
	must(t, admin.Delete(ctx, network))
	condition(ctx, t, network, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInUse, "attach-allowed/attach-one")
	if err := get(ctx, attachment("attach-allowed")); err != nil {
		t.Errorf("the attachment of a pod has gone: %v", err)
	}
	if err := admin.Create(ctx, onNetwork("attach-two", "attach-other", "attach", ""), client.DryRunAll); err == nil ||
		!strings.Contains(err.Error(), "is being deleted") {
		t.Errorf("a network that goes takes another pod: %v", err)
	}
	// Once the pod does not count, nothing keeps the network.
	selects(nil)
	for _, object := range []client.Object{network, attachment("attach-allowed"), attachment("attach-other")} {
		awaitGone(ctx, t, object)
	}
	if err := get(ctx, foreign); err != nil {
		t.Errorf("somebody else's attachment was removed: %v", err)
	}
}

func TestOneNetworkHasTheSchedule(t *testing.T) {
	ctx := needOperator(t)
	first, second := newNetwork("gates-1", 205, "10.205.0.0/16"), newNetwork("gates-2", 206, "10.206.0.0/16")
	first.Spec.Schedule, second.Spec.Schedule = gates(255), gates(1)
	begin := time.Now()
	create(ctx, t, first)
	condition(ctx, t, first, v1alpha1.ConditionScheduleAccepted, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
	asked := *first.Status.Schedule
	if at := time.Unix(asked.BaseTime.Seconds, 0); at.Before(begin) || at.After(begin.Add(time.Minute)) || asked.BaseTime.Nanoseconds%1e6 != 0 {
		t.Errorf("asked at %v for %+v", begin, asked)
	}
	time.Sleep(1100 * time.Millisecond) // ages are whole seconds
	create(ctx, t, second)
	condition(ctx, t, second, v1alpha1.ConditionScheduleAccepted, metav1.ConditionFalse, v1alpha1.ReasonScheduleOfAnother, "network gates-1 has a schedule")
	change(ctx, t, first, func() { first.Spec.LinkSpeed = "1Mbit" })
	text := condition(ctx, t, first, v1alpha1.ConditionScheduleAccepted, metav1.ConditionFalse, v1alpha1.ReasonScheduleInvalid)
	if !strings.Contains(text, "time-interval-value: is 500000") || first.Status.Schedule == nil || first.Status.Schedule.BaseTime != asked.BaseTime {
		t.Errorf("got %q, and nodes get %+v", text, first.Status.Schedule)
	}
	change(ctx, t, first, func() { first.Spec.LinkSpeed = ""; first.Spec.Schedule = gates(15) })
	await(ctx, t, first, func() error {
		if first.Status.Schedule.Hash == asked.Hash {
			return fmt.Errorf("%w: nodes get %+v", errNotYet, first.Status.Schedule)
		}
		return nil
	})
	if first.Status.Schedule.BaseTime == asked.BaseTime {
		t.Error("another schedule begins when the one before did")
	}
	change(ctx, t, first, func() { first.Spec.Schedule = nil })
	condition(ctx, t, second, v1alpha1.ConditionScheduleAccepted, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
}

// change changes an object, whatever else was changed meanwhile.
func change(ctx context.Context, t *testing.T, object client.Object, edit func()) {
	t.Helper()
	await(ctx, t, object, func() error {
		edit()
		return admin.Update(ctx, object)
	})
}

// gates are two halves of a millisecond: in the first these classes may send, in the second all.
func gates(states int32) *v1alpha1.GateParameterTable {
	const operation = "set-gate-states"
	return &v1alpha1.GateParameterTable{
		GateEnabled:    true,
		AdminCycleTime: &v1alpha1.CycleTime{Numerator: 1, Denominator: 1000},
		AdminControlList: &v1alpha1.GateControlList{Entries: []v1alpha1.GateControlEntry{
			{Index: 0, OperationName: operation, TimeIntervalValue: 500000, GateStatesValue: states},
			{Index: 1, OperationName: operation, TimeIntervalValue: 500000, GateStatesValue: 255},
		}},
	}
}

// TestPortOfEncryptedTunnels has a network on the port of encrypted tunnels, which gets nothing, and one on another port.
func TestPortOfEncryptedTunnels(t *testing.T) {
	ctx := needOperator(t)
	reserved, other := newNetwork("port-1", 246, "10.246.0.0/16"), newNetwork("port-2", 247, "10.247.0.0/16")
	reserved.Spec.Port, other.Spec.Port = v1alpha1.DefaultEncryptedPort, 8472
	create(ctx, t, reserved)
	create(ctx, t, other)
	condition(ctx, t, reserved, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPortReserved, "spec.port 4793 is the port of encrypted tunnels")
	condition(ctx, t, other, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
}

func TestOverlappingNetworks(t *testing.T) {
	ctx := needOperator(t)
	first, second := newNetwork("overlap-1", 207, "10.207.0.0/16"), newNetwork("overlap-2", 208, "10.207.128.0/17")
	create(ctx, t, first)
	time.Sleep(1100 * time.Millisecond)
	create(ctx, t, second)
	condition(ctx, t, second, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonOverlaps, "network overlap-1 is older and has addresses of the same range, 10.207.0.0/16")
	condition(ctx, t, first, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
}
