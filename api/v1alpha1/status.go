// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TSNNetworkStatus is what has become of a network.
type TSNNetworkStatus struct {
	// conditions: Ready, Degraded and ScheduleAccepted.
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
	// nodes have a part of the network's addresses each. The operator writes addresses and pods, a node's agent the rest.
	// +listType=map
	// +listMapKey=name
	// +optional
	Nodes []NodeStatus `json:"nodes,omitempty"`
}

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

// NodeStatus is a node's part in a network.
type NodeStatus struct {
	// name of the node.
	// +required
	Name string `json:"name"`
	// ipv4 is the node's part of spec.ipv4.
	// +optional
	IPv4 string `json:"ipv4,omitempty"`
	// ipv6 is the node's part of spec.ipv6.
	// +optional
	IPv6 string `json:"ipv6,omitempty"`
	// pods is how many of the network are on the node.
	// +optional
	Pods *int32 `json:"pods,omitempty"`
	// uplink is the interface that the network uses on the node.
	// +optional
	Uplink string `json:"uplink,omitempty"`
	// linkSpeed of that interface.
	// +optional
	LinkSpeed string `json:"linkSpeed,omitempty"`
	// scheduleHash is that of the schedule which the node's ktsnd executes.
	// +optional
	ScheduleHash string `json:"scheduleHash,omitempty"`
	// conditions: Ready, and ScheduleOperational if the network has a schedule.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
