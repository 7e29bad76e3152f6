// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TSNNode is the state of one node: the operator writes the desired state to spec, the node's agent the observed state to status. It has
// the name of its Node and is deleted with it. Only the operator creates TSNNodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=tsnnodes,scope=Cluster,categories=kubernetsn
// +kubebuilder:printcolumn:name="Networks",type=string,JSONPath=`.spec.networks[*].name`
// +kubebuilder:printcolumn:name="Gates",type=string,JSONPath=`.spec.gates`
// +kubebuilder:printcolumn:name="Clock",type=string,JSONPath=`.status.clock.state`
// +kubebuilder:printcolumn:name="Agent",type=string,JSONPath=`.status.agentVersion`
// +kubebuilder:printcolumn:name="Ktsnd",type=string,JSONPath=`.status.ktsndVersion`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TSNNode struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state of the node. The operator writes it.
	// +optional
	Spec TSNNodeSpec `json:"spec,omitzero"`
	// status is the observed state of the node. The node's agent writes it.
	// +optional
	Status TSNNodeStatus `json:"status,omitzero"`
}

// TSNNodeList is a list of nodes.
//
// +kubebuilder:object:root=true
type TSNNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TSNNode `json:"items"`
}

// TSNNodeSpec is the desired state of a node.
type TSNNodeSpec struct {
	// networks that the node has subnets of. After its last pod on a network is gone, a node keeps its subnets until another node needs
	// them.
	// +kubebuilder:validation:MaxItems=1024
	// +listType=map
	// +listMapKey=name
	// +optional
	Networks []NodeNetwork `json:"networks,omitempty"`
	// gates is the name of the TSNNetwork whose schedule and traffic classes the node's ktsnd executes, even if the node has no pods on
	// that network.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Gates string `json:"gates,omitempty"`
	// clusterKeys are the trusted keys of clusters at the other ends of the node's encrypted links, including this cluster.
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=cluster
	// +optional
	ClusterKeys []ClusterKey `json:"clusterKeys,omitempty"`
}

// NodeNetwork has a node's subnets of a network.
type NodeNetwork struct {
	// name of the TSNNetwork.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
	// ipv4 is the node's subnet of the network's spec.ipv4.
	// +kubebuilder:validation:MaxLength=18
	// +required
	IPv4 string `json:"ipv4"`
	// ipv6 is the node's subnet of the network's spec.ipv6, if the network has one.
	// +kubebuilder:validation:MaxLength=43
	// +optional
	IPv6 string `json:"ipv6,omitempty"`
	// pods is the number of pods on the network and the node.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Pods int32 `json:"pods"`
}

// TSNNodeStatus is the observed state of a node.
type TSNNodeStatus struct {
	// agentVersion is the version of the node's ktsn-agent.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	AgentVersion string `json:"agentVersion,omitempty"`
	// ktsndVersion is the version of the node's ktsnd when the agent last reached it.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	KtsndVersion string `json:"ktsndVersion,omitempty"`
	// setsAttached means that the agent sets the condition kubernetsn.io/attached of the node's pods. Pods get the readiness gate of that
	// name once all running agents do.
	// +optional
	SetsAttached bool `json:"setsAttached,omitempty"`
	// clock is the state of the node's clock.
	// +optional
	Clock *NodeClock `json:"clock,omitempty"`
	// keys of the node while it has a network or a link with encryption, at most the one in use and the next or previous one.
	// +kubebuilder:validation:MaxItems=2
	// +listType=map
	// +listMapKey=id
	// +optional
	Keys []NodeKey `json:"keys,omitempty"`
	// sender has the generations of the keys with which the node encrypts.
	// +optional
	Sender *SenderGenerations `json:"sender,omitempty"`
	// encryptionUnavailable is the reason why the node cannot encrypt; empty if it can. It is set while the node has a network or a link
	// with encryption.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	EncryptionUnavailable string `json:"encryptionUnavailable,omitempty"`
	// conditions: HostReady.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// hostFindings are settings of the node that impair traffic and do not stop it for certain; those that do are in the condition
	// HostReady.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=reason
	// +optional
	HostFindings []HostFinding `json:"hostFindings,omitempty"`
	// networks has the reports about the networks of spec.networks.
	// +kubebuilder:validation:MaxItems=1024
	// +listType=map
	// +listMapKey=name
	// +optional
	Networks []NodeNetworkStatus `json:"networks,omitempty"`
}

// NodeNetworkStatus is the observed state of a network on a node.
type NodeNetworkStatus struct {
	// name of the TSNNetwork.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
	// observedGeneration is the generation of the TSNNetwork that the report is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// uplink is the interface that the network uses on the node.
	// +optional
	Uplink string `json:"uplink,omitempty"`
	// linkSpeed of that interface.
	// +optional
	LinkSpeed string `json:"linkSpeed,omitempty"`
	// mtu is the largest MTU that pods' interfaces can have on the node, in bytes; 0 if unknown.
	// +optional
	MTU int32 `json:"mtu,omitempty"`
	// scheduleHash is the hash of the schedule that the node's ktsnd executes.
	// +optional
	ScheduleHash string `json:"scheduleHash,omitempty"`
	// conditions: Ready, PeersReachable if the network has other nodes, ScheduleOperational if the network has a schedule,
	// CaptureOperational if frames of its pods are captured, ClockSynchronized if the network has spec.clock, and EncryptionOperational if it has spec.encryption.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// HostFinding is a setting of a node that impairs traffic.
type HostFinding struct {
	// reason identifies the kind of the finding.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Reason string `json:"reason"`
	// message describes the setting.
	// +kubebuilder:validation:MaxLength=1024
	// +required
	Message string `json:"message"`
	// remedy says how to change it.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Remedy string `json:"remedy,omitempty"`
}
