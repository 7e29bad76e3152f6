// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxWorkloadPods is how many pods of a workload a TSNWorkload names.
const MaxWorkloadPods = 200

// TSNWorkload lists the pods of a workload in this cluster: the pods of its namespace whose label federation.kubernetsn.io/workload has its
// name. ktsn-federator creates it with the workload and reads its status at the hub. The hub does not need to reach the clusters.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=tsnworkloads,categories=kubernetsn
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.total`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TSNWorkload struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// status lists the pods. The operator writes it.
	// +optional
	Status TSNWorkloadStatus `json:"status,omitzero"`
}

// TSNWorkloadList is a list of workloads.
//
// +kubebuilder:object:root=true
type TSNWorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TSNWorkload `json:"items"`
}

// TSNWorkloadStatus lists the pods of a workload.
type TSNWorkloadStatus struct {
	// total is the number of pods.
	// +optional
	Total int32 `json:"total"`
	// ready is the number of pods that are ready.
	// +optional
	Ready int32 `json:"ready"`
	// pods of the workload, by name, at most 200.
	// +kubebuilder:validation:MaxItems=200
	// +listType=map
	// +listMapKey=name
	// +optional
	Pods []WorkloadPod `json:"pods,omitempty"`
}

// WorkloadPod is a pod of a workload.
type WorkloadPod struct {
	// name of the pod.
	// +required
	Name string `json:"name"`
	// node that the pod runs on; empty until it is scheduled.
	// +optional
	Node string `json:"node,omitempty"`
	// phase of the pod, such as Running.
	// +optional
	Phase string `json:"phase,omitempty"`
	// ready is the pod's condition Ready.
	// +optional
	Ready bool `json:"ready"`
	// addresses of the pod's primary network.
	// +listType=atomic
	// +optional
	Addresses []string `json:"addresses,omitempty"`
	// networks are the TSNNetworks of the pod.
	// +listType=atomic
	// +optional
	Networks []WorkloadNetwork `json:"networks,omitempty"`
	// links of the pod, and links that its labels request and that do not exist yet.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Links []WorkloadLink `json:"links,omitempty"`
	// containers of the pod.
	// +listType=atomic
	// +optional
	Containers []WorkloadContainer `json:"containers,omitempty"`
}

// WorkloadNetwork is a network that a pod is on.
type WorkloadNetwork struct {
	// network is the name of the TSNNetwork.
	// +required
	Network string `json:"network"`
	// interface of the pod; empty until the pod is attached.
	// +optional
	Interface string `json:"interface,omitempty"`
	// addresses of the interface.
	// +listType=atomic
	// +optional
	Addresses []string `json:"addresses,omitempty"`
}

// MaxWorkloadLinks limits the links of one pod in a TSNWorkload.
const MaxWorkloadLinks = 16

// WorkloadLink is an end of a link in a pod.
type WorkloadLink struct {
	// service is the name of the TSNService, followed by a dot and its namespace if the pod is in a different one.
	// +required
	Service string `json:"service"`
	// client is set if the pod is the client of the link.
	// +optional
	Client bool `json:"client,omitempty"`
	// interface of the pod.
	// +optional
	Interface string `json:"interface,omitempty"`
	// addresses of the interface.
	// +listType=atomic
	// +optional
	Addresses []string `json:"addresses,omitempty"`
	// peer is the pod at the other end, as NAMESPACE/POD, or CLUSTER/NAMESPACE/POD in a different cluster; empty until there is one.
	// +optional
	Peer string `json:"peer,omitempty"`
	// up is set if the ends reach each other.
	// +optional
	Up bool `json:"up"`
}

// WorkloadContainer is a container of a pod.
type WorkloadContainer struct {
	// name of the container.
	// +required
	Name string `json:"name"`
	// image of the container.
	// +optional
	Image string `json:"image,omitempty"`
	// state: Running, Waiting, Terminated or Unknown.
	// +optional
	State string `json:"state,omitempty"`
}
