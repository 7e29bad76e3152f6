// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TSNNetwork is a network on which pods send datagrams at times that their applications choose. A pod is on it by the
// annotation kubernetsn.io/network with the network's name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=tsn,categories=kubernetsn
// +kubebuilder:printcolumn:name="VNI",type=integer,JSONPath=`.spec.vni`
// +kubebuilder:printcolumn:name="IPv4",type=string,JSONPath=`.spec.ipv4.cidr`
// +kubebuilder:printcolumn:name="IPv6",type=string,JSONPath=`.spec.ipv6.cidr`,priority=1
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.nodesReady`
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.pods`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].status`
// +kubebuilder:printcolumn:name="Clocks",type=string,JSONPath=`.status.conditions[?(@.type=="ClockSynchronized")].status`
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.status.conditions[?(@.type=="ScheduleAccepted")].reason`,priority=1
// +kubebuilder:printcolumn:name="Capture",type=string,JSONPath=`.spec.capture`,priority=1
// +kubebuilder:printcolumn:name="Encryption",type=string,JSONPath=`.spec.encryption`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",message="metadata.name must have 1 to 63 small letters, digits and hyphens: it also names the pods' attachments"
type TSNNetwork struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the network shall be.
	// +required
	Spec TSNNetworkSpec `json:"spec"`
	// status is what has become of it.
	// +optional
	Status TSNNetworkStatus `json:"status,omitzero"`
}

// TSNNetworkList is a list of networks.
//
// +kubebuilder:object:root=true
type TSNNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TSNNetwork `json:"items"`
}

// TSNNetworkSpec is what a network shall be.
//
// +kubebuilder:validation:XValidation:rule="has(self.ipv6) == has(oldSelf.ipv6)",message="ipv6 cannot be added to or taken from a network that pods may be on; make another TSNNetwork"
// +kubebuilder:validation:XValidation:rule="has(self.ipv4.part) == has(oldSelf.ipv4.part)",message="ipv4.part cannot be added to or taken from a network that pods may be on: nodes would get other addresses; make another TSNNetwork"
// +kubebuilder:validation:XValidation:rule="!has(self.ipv6) || has(self.ipv6.part) == has(self.ipv4.part)",message="ipv4.part and ipv6.part must be given together: a cluster has a part of each range or of none"
// +kubebuilder:validation:XValidation:rule="has(self.span) == has(oldSelf.span)",message="span cannot be added to or taken from a network: clusters have parts of it; make another TSNNetwork"
// +kubebuilder:validation:XValidation:rule="!has(self.span) || !has(self.ipv4.part)",message="span and ipv4.part exclude each other: a hub has the one, a member cluster the other"
type TSNNetworkSpec struct {
	// vni is the VXLAN network identifier, another one for each network. It cannot be changed.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777215
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="vni cannot be changed; make another TSNNetwork and move the pods to it"
	// +required
	VNI int32 `json:"vni"`

	// ipv4 is the range from which pods get their addresses. Each node with pods on the network gets a part of it.
	// +kubebuilder:validation:XValidation:rule="isCIDR(self.cidr) && cidr(self.cidr).ip().family() == 4",message="ipv4.cidr must be a range of IPv4 such as 10.42.0.0/16"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || cidr(self.cidr) == cidr(self.cidr).masked()",message="ipv4.cidr has bits set behind its prefix; write the range's first address, such as 10.42.0.0/16"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || (cidr(self.cidr).prefixLength() <= self.nodePrefixLength && self.nodePrefixLength - cidr(self.cidr).prefixLength() <= 16)",message="ipv4.nodePrefixLength must be that of cidr or up to 16 more: it divides the range among nodes"
	// +kubebuilder:validation:XValidation:rule="self.nodePrefixLength <= 30",message="ipv4.nodePrefixLength must be at most 30, or no address would be left for pods"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || !isCIDR(oldSelf.cidr) || cidr(self.cidr).containsCIDR(cidr(oldSelf.cidr))",message="ipv4.cidr can only grow: the range before must lie in it, because pods have addresses of it"
	// +kubebuilder:validation:XValidation:rule="!has(self.part) || isCIDR(self.part) && isCIDR(self.cidr) && cidr(self.part).ip().family() == 4 && cidr(self.cidr).containsCIDR(cidr(self.part)) && cidr(self.part) == cidr(self.part).masked() && cidr(self.part).prefixLength() <= self.nodePrefixLength",message="ipv4.part must be a range of IPv4 in ipv4.cidr that is not smaller than a node's part, such as 10.42.16.0/20"
	// +kubebuilder:validation:XValidation:rule="!has(self.part) || !has(oldSelf.part) || !isCIDR(self.part) || !isCIDR(oldSelf.part) || cidr(self.part).containsCIDR(cidr(oldSelf.part))",message="ipv4.part can only grow: the part before must lie in it, because pods have addresses of it"
	// +required
	IPv4 Range4 `json:"ipv4,omitzero"`

	// ipv6 is a range for a second address of each pod. Timed messages and all others can use it.
	// +kubebuilder:validation:XValidation:rule="isCIDR(self.cidr) && cidr(self.cidr).ip().family() == 6",message="ipv6.cidr must be a range of IPv6 such as fd42::/48"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || cidr(self.cidr) == cidr(self.cidr).masked()",message="ipv6.cidr has bits set behind its prefix; write the range's first address, such as fd42::/48"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || (cidr(self.cidr).prefixLength() <= self.nodePrefixLength && self.nodePrefixLength - cidr(self.cidr).prefixLength() <= 16)",message="ipv6.nodePrefixLength must be that of cidr or up to 16 more: it divides the range among nodes"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || !isCIDR(oldSelf.cidr) || cidr(self.cidr).containsCIDR(cidr(oldSelf.cidr))",message="ipv6.cidr can only grow: the range before must lie in it, because pods have addresses of it"
	// +kubebuilder:validation:XValidation:rule="!has(self.part) || isCIDR(self.part) && isCIDR(self.cidr) && cidr(self.part).ip().family() == 6 && cidr(self.cidr).containsCIDR(cidr(self.part)) && cidr(self.part) == cidr(self.part).masked() && cidr(self.part).prefixLength() <= self.nodePrefixLength",message="ipv6.part must be a range of IPv6 in ipv6.cidr that is not smaller than a node's part, such as fd42:0:0:1000::/52"
	// +kubebuilder:validation:XValidation:rule="!has(self.part) || !has(oldSelf.part) || !isCIDR(self.part) || !isCIDR(oldSelf.part) || cidr(self.part).containsCIDR(cidr(oldSelf.part))",message="ipv6.part can only grow: the part before must lie in it, because pods have addresses of it"
	// +optional
	IPv6 *Range6 `json:"ipv6,omitempty"`

	// span stretches the network over several clusters. Only a hub reads it: ktsn-federator divides the ranges among the clusters and
	// gives each of them the network with its ipv4.part and without span.
	// +optional
	Span *Span `json:"span,omitempty"`

	// mtu of the pods' interfaces in bytes. By default, or 0, it is what the uplink leaves: its own less 50, and less 37 more
	// with encryption.
	// +kubebuilder:validation:XValidation:rule="self == 0 || (self >= 1280 && self <= 65535)",message="mtu must be 1280 to 65535 bytes, or 0 for what the uplink leaves"
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// uplinks say through which interface nodes reach each other, for networks that insist on it. The first one whose
	// nodeSelector fits a node is that node's; where none fits, pods cannot be attached. By default it is the interface
	// that the node's ktsnd was started with. Because ktsnd serves one interface, another than ktsnd's is an error,
	// which the node reports.
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	Uplinks []Uplink `json:"uplinks,omitempty"`

	// linkSpeed is the speed of the slowest uplink, such as 1Gbit or 100Mbit. Where it is given, the schedule is checked for it, and a node
	// that is slower reports so.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]{0,6}(Mbit|Gbit)$')",message="linkSpeed must be a whole number with Mbit or Gbit, such as 1Gbit"
	// +optional
	LinkSpeed string `json:"linkSpeed,omitempty"`

	// trafficClasses says to which class messages belong and how their frames are marked. It counts for all that a
	// node's ktsnd sends, so only one network of a cluster can say it.
	// +optional
	TrafficClasses *TrafficClasses `json:"trafficClasses,omitempty"`

	// schedule says when which traffic classes may send, by IEEE 802.1Qbv. All nodes begin with it at one base time. The
	// gates are those of the node's uplink, so only one network of a cluster can have a schedule.
	// +optional
	Schedule *GateParameterTable `json:"schedule,omitempty"`

	// capture says which frames ktsnd takes from the network's pods beside those of programs with libktsn.so. None: none;
	// datagrams with a transmit time that libktsn.so does not see are dropped. Timed: frames with a transmit time. All: all
	// frames, so that the gates hold for all that a pod sends; those without a transmit time leave in the next window of
	// their class, and by the kernel while ktsnd does not answer. It counts for pods that are made afterwards.
	// +kubebuilder:validation:Enum=None;Timed;All
	// +kubebuilder:default=Timed
	// +optional
	Capture string `json:"capture,omitempty"`

	// encryption says whether frames between nodes are encrypted (ESP with AES-GCM). None: they are not. Preferred: they are while all
	// nodes of the network can; else all of them are sent in clear, and the condition Degraded names a node that cannot. Required: what
	// cannot be encrypted is not sent, and pods are refused on nodes that cannot. With Preferred and Required interfaces have an MTU
	// that is less by 37. The value may be changed while pods run: frames are lost until all nodes have learnt of it, and pods with a
	// larger MTU than fits get the smaller one.
	// +kubebuilder:validation:Enum=None;Preferred;Required
	// +kubebuilder:default=None
	// +optional
	Encryption string `json:"encryption,omitempty"`

	// cards are PCI addresses of network cards, such as 0000:02:00.0, that pods of Kata with the annotation kubernetsn.io/device: vfio
	// get, one each, in the place of an interface on the network. A node gives those of them that it has and does not use itself.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^([0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`
	// +listType=set
	// +optional
	Cards []string `json:"cards,omitempty"`

	// cardNamespaces are the namespaces whose pods may have cards, by name. Pods of other namespaces get none; without any, no pod does.
	// A machine with a card is on the wire: nothing that the network ensures holds for what it sends.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	CardNamespaces []string `json:"cardNamespaces,omitempty"`

	// receive says how datagrams of other nodes reach the pods. Without it they take the kernel's path.
	// +optional
	Receive *Receive `json:"receive,omitempty"`

	// clock says how good the clock of a node must be for the network, and what becomes of it where the clock is not. Without it
	// clocks are not looked at.
	// +optional
	Clock *ClockRequirement `json:"clock,omitempty"`

	// limits are the most that each pod of the network may have of its node's ktsnd.
	// +optional
	Limits *PodLimits `json:"limits,omitempty"`

	// namespaceSelector selects the namespaces whose pods may be on the network. By default all may. A namespace is
	// selected by name with the label kubernetes.io/metadata.name, which each has.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// Range4 is a range of IPv4 that is divided among nodes.
type Range4 struct {
	// cidr is the whole range, such as 10.42.0.0/16. It can grow, and not shrink.
	// +kubebuilder:validation:MaxLength=18
	// +required
	CIDR string `json:"cidr"`
	// nodePrefixLength is the prefix length of a node's part; one of 24 has 254 addresses. It cannot be changed.
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=32
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="nodePrefixLength cannot be changed; make another TSNNetwork and move the pods to it"
	// +kubebuilder:default=24
	// +optional
	NodePrefixLength int32 `json:"nodePrefixLength,omitempty"`
	// part is this cluster's share of cidr, such as 10.42.16.0/20, on a network that several clusters are on; its nodes have their parts of it.
	// A hub gives it. It can grow, and not shrink.
	// +kubebuilder:validation:MaxLength=18
	// +optional
	Part string `json:"part,omitempty"`
}

// Range6 is a range of IPv6 that is divided among nodes.
type Range6 struct {
	// cidr is the whole range, such as fd42::/48. It can grow, and not shrink.
	// +kubebuilder:validation:MaxLength=43
	// +required
	CIDR string `json:"cidr"`
	// nodePrefixLength is the prefix length of a node's part. It cannot be changed.
	// +kubebuilder:validation:Minimum=16
	// +kubebuilder:validation:Maximum=126
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="nodePrefixLength cannot be changed; make another TSNNetwork and move the pods to it"
	// +kubebuilder:default=64
	// +optional
	NodePrefixLength int32 `json:"nodePrefixLength,omitempty"`
	// part is this cluster's share of cidr, such as fd42:0:0:1000::/52, on a network that several clusters are on; its nodes have their parts of it.
	// A hub gives it. It can grow, and not shrink.
	// +kubebuilder:validation:MaxLength=43
	// +optional
	Part string `json:"part,omitempty"`
}

// Uplink is the interface of some nodes towards the others.
type Uplink struct {
	// nodeSelector selects nodes by their labels. Without it, it selects all.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// interface is the name of the network interface on these nodes, such as eno1.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^/:[:space:]]+$') && self != '.' && self != '..'",message="interface must be the name of a network interface, such as eno1"
	// +required
	Interface string `json:"interface"`
	// type is how frames reach the interface, for networks that insist on it. Direct: ktsnd makes the tunnel's headers
	// itself and hands frames to it. OVS: Open vSwitch does both. By default either will do; another than ktsnd's is an
	// error, which the node reports.
	// +kubebuilder:validation:Enum=Direct;OVS
	// +optional
	Type string `json:"type,omitempty"`
}

// TrafficClasses says to which class messages belong and how they are marked.
type TrafficClasses struct {
	// priorityMap gives each SO_PRIORITY from 0 to 15 its class; larger ones count modulo 16. By default that of Table
	// 8-5 of IEEE Std 802.1Q.
	// +kubebuilder:validation:MinItems=16
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=7
	// +listType=atomic
	// +kubebuilder:default={1,0,2,3,4,5,6,7,1,0,2,3,4,5,6,7}
	// +optional
	PriorityMap []int32 `json:"priorityMap,omitempty"`
	// priorityCodePoints gives each class from 0 to 7 the PCP of its frames, which they carry where ktsnd tags them.
	// +kubebuilder:validation:MinItems=8
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=7
	// +listType=atomic
	// +kubebuilder:default={1,0,2,3,4,5,6,7}
	// +optional
	PriorityCodePoints []int32 `json:"priorityCodePoints,omitempty"`
}

// Span says over which clusters a network stretches.
type Span struct {
	// clusters selects the clusters by the labels of Karmada's Cluster objects. By default all are selected.
	// +optional
	Clusters *metav1.LabelSelector `json:"clusters,omitempty"`
	// clusterPrefixLength is the prefix length of a cluster's part of spec.ipv4.cidr. spec.ipv6.cidr is divided into as many parts. It
	// cannot be changed.
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=30
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterPrefixLength cannot be changed; make another TSNNetwork and move the pods to it"
	// +required
	ClusterPrefixLength int32 `json:"clusterPrefixLength"`
}
