// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TSNNode is the state of one node: the operator writes in spec what the node's agent shall do, the agent writes in
// status what holds there. It has the name of its Node, and goes with it. Nobody else makes or changes one.
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

	// spec is what the node's agent shall do. The operator writes it.
	// +optional
	Spec TSNNodeSpec `json:"spec,omitzero"`
	// status is what holds on the node. The node's agent writes it.
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

// TSNNodeSpec is what a node's agent shall do.
type TSNNodeSpec struct {
	// networks of which the node has a part. A node keeps its part when its last pod on the network has gone, as long as
	// no other node needs it.
	// +kubebuilder:validation:MaxItems=1024
	// +listType=map
	// +listMapKey=name
	// +optional
	Networks []NodeNetwork `json:"networks,omitempty"`
	// gates is the name of the TSNNetwork whose schedule and traffic classes the node's ktsnd executes; empty: none. The
	// node need not be on that network.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Gates string `json:"gates,omitempty"`
	// clusterKeys are those by which the nodes at the other ends of the node's encrypted links are believed: this cluster's, and the pinned
	// ones of other clusters. A node without such links has none.
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=cluster
	// +optional
	ClusterKeys []ClusterKey `json:"clusterKeys,omitempty"`
}

// NodeNetwork is a node's part of a network.
type NodeNetwork struct {
	// name of the TSNNetwork.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
	// ipv4 is the node's part of the network's spec.ipv4.
	// +kubebuilder:validation:MaxLength=18
	// +required
	IPv4 string `json:"ipv4"`
	// ipv6 is the node's part of the network's spec.ipv6, if it has one.
	// +kubebuilder:validation:MaxLength=43
	// +optional
	IPv6 string `json:"ipv6,omitempty"`
	// pods is how many of the network are on the node.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Pods int32 `json:"pods"`
}

// TSNNodeStatus is what holds on a node.
type TSNNodeStatus struct {
	// agentVersion is that of the node's ktsn-agent.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	AgentVersion string `json:"agentVersion,omitempty"`
	// ktsndVersion is that of the node's ktsnd, when the agent last reached it.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	KtsndVersion string `json:"ktsndVersion,omitempty"`
	// clock is what holds of the node's clock.
	// +optional
	Clock *NodeClock `json:"clock,omitempty"`
	// keys are those of the node while it is on a network, or has a link, with encryption: the one that it uses, and while keys change the next or the last one.
	// +kubebuilder:validation:MaxItems=2
	// +listType=map
	// +listMapKey=id
	// +optional
	Keys []NodeKey `json:"keys,omitempty"`
	// sender are the generations of the keys by which the node encrypts.
	// +optional
	Sender *SenderGenerations `json:"sender,omitempty"`
	// encryptionUnavailable says why the node cannot encrypt, while it is on a network, or has a link, with encryption; empty: it can.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	EncryptionUnavailable string `json:"encryptionUnavailable,omitempty"`
	// networks are those of spec.networks that the agent has looked at.
	// +kubebuilder:validation:MaxItems=1024
	// +listType=map
	// +listMapKey=name
	// +optional
	Networks []NodeNetworkStatus `json:"networks,omitempty"`
}

// NodeNetworkStatus is what holds of a network on a node.
type NodeNetworkStatus struct {
	// name of the TSNNetwork.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
	// observedGeneration is that of the TSNNetwork which the agent has looked at.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// uplink is the interface that the network uses on the node.
	// +optional
	Uplink string `json:"uplink,omitempty"`
	// linkSpeed of that interface.
	// +optional
	LinkSpeed string `json:"linkSpeed,omitempty"`
	// mtu is the most that pods' interfaces can have there: what the uplink leaves, in bytes; 0: not known.
	// +optional
	MTU int32 `json:"mtu,omitempty"`
	// scheduleHash is that of the schedule which the node's ktsnd executes.
	// +optional
	ScheduleHash string `json:"scheduleHash,omitempty"`
	// conditions: Ready, ScheduleOperational if the network has a schedule, CaptureOperational if frames of its pods are captured,
	// ClockSynchronized if the network has spec.clock, and EncryptionOperational if it has spec.encryption.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
