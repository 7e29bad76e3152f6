// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TSNNetworkStatus is what has become of a network.
type TSNNetworkStatus struct {
	// conditions: Ready, Degraded, ScheduleAccepted, ClockSynchronized if the network has spec.clock, and HubSeen if it has
	// spec.ipv4.part.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// pods is how many are on the network.
	// +optional
	Pods int32 `json:"pods"`
	// nodesReady is how many nodes serve the network, of those that shall.
	// +optional
	NodesReady string `json:"nodesReady,omitempty"`
	// schedule is what all nodes are asked to execute.
	// +optional
	Schedule *ScheduleRequest `json:"schedule,omitempty"`
	// nodeCounts sums up what the nodes' agents say in their TSNNodes.
	// +optional
	NodeCounts *NodeCounts `json:"nodeCounts,omitempty"`
	// nodeProblems are nodes with pods on the network which do not serve it as it was asked for, the worst first; no more than 50.
	// All are found in the TSNNodes.
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	NodeProblems []NodeProblem `json:"nodeProblems,omitempty"`
	// mtu is the most that pods' interfaces of the network can have on all of its nodes, in bytes, on a network with spec.ipv4.part; 0: not
	// known.
	// +optional
	MTU int32 `json:"mtu,omitempty"`
	// peers are the network's nodes in this cluster, on a network with spec.ipv4.part: a hub tells the other clusters of them. There are
	// no more than 1000; where there are more, the condition Degraded says so.
	// +kubebuilder:validation:MaxItems=1000
	// +listType=map
	// +listMapKey=name
	// +optional
	Peers []PeerNode `json:"peers,omitempty"`
	// clusterKeys are the public keys by which clusters sign their nodes, on a network with spec.encryption: the one without a name is
	// this cluster's, the others are those that it has pinned. Nodes believe no other.
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=cluster
	// +optional
	ClusterKeys []ClusterKey `json:"clusterKeys,omitempty"`
}

// NodeCounts counts nodes.
type NodeCounts struct {
	// allocated is how many have a part of the network's addresses.
	// +optional
	Allocated int32 `json:"allocated"`
	// withPods is how many have pods on the network.
	// +optional
	WithPods int32 `json:"withPods"`
	// ready is how many of those with pods serve the network.
	// +optional
	Ready int32 `json:"ready"`
	// scheduleOperational is how many of those with pods execute the network's schedule.
	// +optional
	ScheduleOperational int32 `json:"scheduleOperational"`
}

// NodeProblem is something that does not hold on a node.
type NodeProblem struct {
	// node is its name.
	// +required
	Node string `json:"node"`
	// type of the condition, such as Ready.
	// +required
	Type string `json:"type"`
	// reason of the condition.
	// +required
	Reason string `json:"reason"`
	// message says it in a sentence.
	// +optional
	Message string `json:"message,omitempty"`
}

// MaxSpanPeers is how many nodes of a cluster a network's status names.
const MaxSpanPeers = 1000

// MaxNodeProblems is how many nodes a network's status names.
const MaxNodeProblems = 50

// ScheduleRequest is what all nodes are asked to execute.
type ScheduleRequest struct {
	// observedGeneration is that of the TSNNetwork whose schedule it is.
	// +required
	ObservedGeneration int64 `json:"observedGeneration"`
	// hash tells schedules apart.
	// +required
	Hash string `json:"hash"`
	// baseTime is when all nodes begin with it, in TAI.
	// +required
	BaseTime PTPTime `json:"baseTime"`
}
