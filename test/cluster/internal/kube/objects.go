// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// Get reads an object of KuberneTSN.
func Get[Object any](ctx context.Context, client dynamic.Interface, resource, namespace, name string) (*Object, error) {
	read, err := client.Resource(v1alpha1.GroupVersion.WithResource(resource)).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	object := new(Object)
	return object, runtime.DefaultUnstructuredConverter.FromUnstructured(read.Object, object)
}

// List reads objects of KuberneTSN.
func List[Object any](ctx context.Context, client dynamic.Interface, resource, namespace string, options metav1.ListOptions) ([]Object, error) {
	list, err := client.Resource(v1alpha1.GroupVersion.WithResource(resource)).Namespace(namespace).List(ctx, options)
	if err != nil {
		return nil, err
	}
	objects := make([]Object, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &objects[i]); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// Scale sets the replicas of a Deployment.
func Scale(ctx context.Context, client kubernetes.Interface, namespace, name string, replicas int32) error {
	_, err := client.AppsV1().Deployments(namespace).UpdateScale(ctx, name, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas},
	}, metav1.UpdateOptions{})
	return err
}

// Ready reports whether a pod is ready.
func Ready(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if condition := &pod.Status.Conditions[i]; condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Attachment is an interface of a pod, as Multus reports it.
type Attachment struct {
	// Name is the NetworkAttachmentDefinition, with its namespace.
	Name      string       `json:"name"`
	Interface string       `json:"interface"`
	IPs       []netip.Addr `json:"ips"`
	MAC       string       `json:"mac"`
}

// Attachments reads Multus' report about a pod.
func Attachments(pod *corev1.Pod) ([]Attachment, error) {
	var all []Attachment
	text := pod.Annotations["k8s.v1.cni.cncf.io/network-status"]
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("network-status of %s is %q: %w", pod.Name, text, err)
	}
	return all, nil
}
