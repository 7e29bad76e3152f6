// SPDX-License-Identifier: Apache-2.0

// Package podstatus reads a pod's readiness, place and networks from its object.
package podstatus

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// Ready reports whether a pod is ready.
func Ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

// Ended reports whether the containers of a pod have ended for good.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Attached returns the condition kubernetsn.io/attached of a pod, nil if it has none.
func Attached(pod *corev1.Pod) *corev1.PodCondition {
	at := slices.IndexFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool { return condition.Type == v1alpha1.ConditionAttached })
	if at < 0 {
		return nil
	}
	return &pod.Status.Conditions[at]
}

// Place returns where a pod runs, and its networks.
func Place(pod *corev1.Pod) v1alpha1.WorkloadPod {
	place := v1alpha1.WorkloadPod{Name: pod.Name, Node: pod.Spec.NodeName, Phase: string(pod.Status.Phase), Ready: Ready(pod), Networks: Networks(pod)}
	for _, address := range pod.Status.PodIPs {
		place.Addresses = append(place.Addresses, address.IP)
	}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		place.Containers = append(place.Containers, v1alpha1.WorkloadContainer{
			Name: container.Name, Image: container.Image, State: stateOf(pod, container.Name),
		})
	}
	return place
}

func stateOf(pod *corev1.Pod, container string) string {
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		switch {
		case status.Name != container:
		case status.State.Running != nil:
			return "Running"
		case status.State.Terminated != nil:
			return "Terminated"
		case status.State.Waiting != nil:
			return "Waiting"
		}
	}
	return "Unknown"
}

// MultusAnnotation is the annotation with the attachments that Multus reports.
const MultusAnnotation = "k8s.v1.cni.cncf.io/network-status"

// Networks returns the TSNNetworks of a pod, with the interfaces and addresses that Multus reports.
func Networks(pod *corev1.Pod) []v1alpha1.WorkloadNetwork {
	var attached []struct {
		Name      string   `json:"name"`
		Interface string   `json:"interface"`
		IPs       []string `json:"ips"`
	}
	_ = json.Unmarshal([]byte(pod.Annotations[MultusAnnotation]), &attached) // an invalid annotation is ignored
	var networks []v1alpha1.WorkloadNetwork
	for name := range strings.SplitSeq(pod.Annotations[v1alpha1.NetworkAnnotation], ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		network := v1alpha1.WorkloadNetwork{Network: name}
		for _, row := range attached {
			if row.Name == name || strings.HasSuffix(row.Name, "/"+name) {
				network.Interface = row.Interface
				network.Addresses = append(network.Addresses, row.IPs...)
			}
		}
		networks = append(networks, network)
	}
	return networks
}
