// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TSNNetworkStatus is the observed state of a network.
type TSNNetworkStatus struct {
	// conditions: Ready, Degraded, ScheduleAccepted, ClockSynchronized if the network has spec.clock, and HubSeen if it has
	// spec.ipv4.part.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// pods is the number of pods on the network. Pods whose condition kubernetsn.io/attached is False do not count.
	// +optional
	Pods int32 `json:"pods"`
	// nodesReady is the number of ready nodes and the number of nodes with pods on the network, such as 2/3.
	// +optional
	NodesReady string `json:"nodesReady,omitempty"`
	// schedule is the schedule that all nodes shall execute.
	// +optional
	Schedule *ScheduleRequest `json:"schedule,omitempty"`
	// nodeCounts summarises the reports of the nodes' agents in their TSNNodes.
	// +optional
	NodeCounts *NodeCounts `json:"nodeCounts,omitempty"`
	// nodeProblems lists nodes with pods on the network that do not fulfil its spec, the worst first, at most 50. The TSNNodes have
	// all problems.
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	NodeProblems []NodeProblem `json:"nodeProblems,omitempty"`
	// mtu is the largest MTU that pods' interfaces can have on all nodes of the network, in bytes; 0 if unknown. It is set on networks
	// with spec.ipv4.part.
	// +optional
	MTU int32 `json:"mtu,omitempty"`
	// peers are the network's nodes in this cluster, at most 1000. A hub passes them to the other clusters. They are set on networks
	// with spec.ipv4.part. If there are more than 1000 nodes, the condition Degraded reports it.
	// +kubebuilder:validation:MaxItems=1000
	// +listType=map
	// +listMapKey=name
	// +optional
	Peers []PeerNode `json:"peers,omitempty"`
	// clusterKeys are the public keys by which clusters sign their nodes, on a network with spec.encryption: the one without a name is
	// this cluster's, the others are pinned. Nodes trust no other keys.
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=cluster
	// +optional
	ClusterKeys []ClusterKey `json:"clusterKeys,omitempty"`
}

// NodeCounts counts nodes.
type NodeCounts struct {
	// allocated is the number of nodes that have a subnet of the network's ranges.
	// +optional
	Allocated int32 `json:"allocated"`
	// withPods is the number of nodes with pods on the network.
	// +optional
	WithPods int32 `json:"withPods"`
	// ready is the number of nodes with pods that serve the network.
	// +optional
	Ready int32 `json:"ready"`
	// scheduleOperational is the number of nodes with pods that execute the network's schedule.
	// +optional
	ScheduleOperational int32 `json:"scheduleOperational"`
}

// NodeProblem is a condition that a node does not fulfil.
type NodeProblem struct {
	// node is the name of the node.
	// +required
	Node string `json:"node"`
	// type of the condition, such as Ready.
	// +required
	Type string `json:"type"`
	// reason of the condition.
	// +required
	Reason string `json:"reason"`
	// message describes the problem.
	// +optional
	Message string `json:"message,omitempty"`
}

// MaxSpanPeers limits the peers in a network's status.
const MaxSpanPeers = 1000

// MaxNodeProblems limits the problems in a network's status.
const MaxNodeProblems = 50

// ScheduleRequest is the schedule that all nodes shall execute.
type ScheduleRequest struct {
	// observedGeneration is the generation of the TSNNetwork that has the schedule.
	// +required
	ObservedGeneration int64 `json:"observedGeneration"`
	// hash identifies the schedule.
	// +required
	Hash string `json:"hash"`
	// baseTime is when all nodes start it, in TAI.
	// +required
	BaseTime PTPTime `json:"baseTime"`
}
