// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxWorkloadPods is how many pods of a workload a TSNWorkload names.
const MaxWorkloadPods = 200

// TSNWorkload says where the pods of a workload run in this cluster: those of its namespace whose label
// federation.kubernetsn.io/workload has its name. ktsn-federator makes it beside the workload, and reads at the hub what the cluster's
// operator says in its status: a hub need not reach the clusters.
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

	// status is where the pods run. The operator writes it.
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

// TSNWorkloadStatus is where the pods of a workload run.
type TSNWorkloadStatus struct {
	// total is how many pods there are.
	// +optional
	Total int32 `json:"total"`
	// ready is how many of them are ready.
	// +optional
	Ready int32 `json:"ready"`
	// pods are the workload's in the order of their names, no more than 200.
	// +kubebuilder:validation:MaxItems=200
	// +listType=map
	// +listMapKey=name
	// +optional
	Pods []WorkloadPod `json:"pods,omitempty"`
}

// WorkloadPod is where a pod runs.
type WorkloadPod struct {
	// name of the pod.
	// +required
	Name string `json:"name"`
	// node that it runs on; empty as long as it was placed on none.
	// +optional
	Node string `json:"node,omitempty"`
	// phase of the pod, such as Running.
	// +optional
	Phase string `json:"phase,omitempty"`
	// ready tells whether it serves.
	// +optional
	Ready bool `json:"ready"`
	// addresses of the pod's primary network.
	// +listType=atomic
	// +optional
	Addresses []string `json:"addresses,omitempty"`
	// networks are the TSNNetworks that it is on.
	// +listType=atomic
	// +optional
	Networks []WorkloadNetwork `json:"networks,omitempty"`
	// links are those that the pod has, and those that its labels ask for and that it has not yet.
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
	// interface of the pod; empty as long as it has none.
	// +optional
	Interface string `json:"interface,omitempty"`
	// addresses of the interface.
	// +listType=atomic
	// +optional
	Addresses []string `json:"addresses,omitempty"`
}

// MaxWorkloadLinks is how many links a TSNWorkload tells of one pod.
const MaxWorkloadLinks = 16

// WorkloadLink is an end of a link in a pod.
type WorkloadLink struct {
	// service is the name of the TSNService, with a point and its namespace where this is not the pod's.
	// +required
	Service string `json:"service"`
	// client tells whether the pod is the end that asked for the link.
	// +optional
	Client bool `json:"client,omitempty"`
	// interface of the pod.
	// +optional
	Interface string `json:"interface,omitempty"`
	// addresses of the interface.
	// +listType=atomic
	// +optional
	Addresses []string `json:"addresses,omitempty"`
	// peer is the pod at the other end, as NAMESPACE/POD, with CLUSTER/ before it where that is another one; empty as long as there is none.
	// +optional
	Peer string `json:"peer,omitempty"`
	// up tells whether the ends reach each other.
	// +optional
	Up bool `json:"up"`
}

// WorkloadContainer is a container of a pod.
type WorkloadContainer struct {
	// name of the container.
	// +required
	Name string `json:"name"`
	// image that it was made of.
	// +optional
	Image string `json:"image,omitempty"`
	// state: Running, Waiting, Terminated or Unknown.
	// +optional
	State string `json:"state,omitempty"`
}
