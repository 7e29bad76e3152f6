// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TSNNetwork is a network on which pods send datagrams at times that their applications choose. The annotation
// kubernetsn.io/network of a pod, with the network's name, attaches the pod to it.
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

	// spec is the desired state of the network.
	// +required
	Spec TSNNetworkSpec `json:"spec"`
	// status is the observed state.
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

// NetworkRoute is a route of a network's pods.
//
// +kubebuilder:validation:XValidation:rule="!has(self.via) || isIP(self.via) && isCIDR(self.to) && ip(self.via).family() == cidr(self.to).ip().family()",message="via must be an address of the same family as to"
type NetworkRoute struct {
	// to is the range of addresses, /4 or smaller: the pod's default route stays on its primary network.
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked() && cidr(self).prefixLength() >= 4",message="to must be a range of /4 or smaller, written by its first address, such as 10.9.0.0/16"
	// +required
	To string `json:"to"`
	// via is the address of a router on the network. By default the addresses are on the network themselves.
	// +kubebuilder:validation:MaxLength=39
	// +optional
	Via string `json:"via,omitempty"`
}

// TSNNetworkSpec is the desired state of a network.
//
// +kubebuilder:validation:XValidation:rule="has(self.ipv6) == has(oldSelf.ipv6)",message="ipv6 cannot be added to or taken from a network that pods may be on; make another TSNNetwork"
// +kubebuilder:validation:XValidation:rule="has(self.ipv4.part) == has(oldSelf.ipv4.part)",message="ipv4.part cannot be added to or taken from a network that pods may be on: nodes would get other addresses; make another TSNNetwork"
// +kubebuilder:validation:XValidation:rule="!has(self.ipv6) || has(self.ipv6.part) == has(self.ipv4.part)",message="ipv4.part and ipv6.part must be given together: a cluster has a part of each range or of none"
// +kubebuilder:validation:XValidation:rule="has(self.span) == has(oldSelf.span)",message="span cannot be added to or taken from a network: clusters have parts of it; make another TSNNetwork"
// +kubebuilder:validation:XValidation:rule="!has(self.span) || !has(self.ipv4.static) && (!has(self.ipv6) || !has(self.ipv6.static))",message="static ranges need a network of one cluster: leave out span"
// +kubebuilder:validation:XValidation:rule="!has(self.span) || !has(self.ipv4.part)",message="span and ipv4.part exclude each other: a hub has the one, a member cluster the other"
// +kubebuilder:validation:XValidation:rule="!has(self.routes) || self.routes.all(r, !isCIDR(r.to) || !(isCIDR(self.ipv4.cidr) && (cidr(self.ipv4.cidr).containsCIDR(r.to) || cidr(r.to).containsCIDR(self.ipv4.cidr))) && !(has(self.ipv6) && isCIDR(self.ipv6.cidr) && (cidr(self.ipv6.cidr).containsCIDR(r.to) || cidr(r.to).containsCIDR(self.ipv6.cidr))))",message="routes must not overlap the network's own ranges, to which pods have routes"
// +kubebuilder:validation:XValidation:rule="!has(self.routes) || self.routes.all(r, !isCIDR(r.to) || cidr(r.to).ip().family() == 4 || has(self.ipv6))",message="routes of IPv6 need ipv6: pods of a network without it have no address of IPv6 there"
// +kubebuilder:validation:XValidation:rule="!has(self.routes) || self.routes.all(r, !has(r.via) || !isIP(r.via) || isCIDR(self.ipv4.cidr) && cidr(self.ipv4.cidr).containsIP(r.via) || has(self.ipv6) && isCIDR(self.ipv6.cidr) && cidr(self.ipv6.cidr).containsIP(r.via))",message="via of routes must be an address in the network's own ranges"
type TSNNetworkSpec struct {
	// vni is the VXLAN network identifier, below 8388608: larger numbers are reserved for links. Each network has its own. It cannot be
	// changed.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777215
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="vni cannot be changed; make another TSNNetwork and move the pods to it"
	// +required
	VNI int32 `json:"vni"`

	// ipv4 is the range from which pods get their addresses. Each node with pods on the network gets a subnet of it.
	// +kubebuilder:validation:XValidation:rule="isCIDR(self.cidr) && cidr(self.cidr).ip().family() == 4",message="ipv4.cidr must be a range of IPv4 such as 10.70.0.0/16"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || cidr(self.cidr) == cidr(self.cidr).masked()",message="ipv4.cidr has bits set after its prefix; write the range's first address, such as 10.70.0.0/16"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || (cidr(self.cidr).prefixLength() <= self.nodePrefixLength && self.nodePrefixLength - cidr(self.cidr).prefixLength() <= 16)",message="ipv4.nodePrefixLength must be that of cidr or up to 16 more: it divides the range among nodes"
	// +kubebuilder:validation:XValidation:rule="self.nodePrefixLength <= 30",message="ipv4.nodePrefixLength must be at most 30, or no address would be left for pods"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || !isCIDR(oldSelf.cidr) || cidr(self.cidr).containsCIDR(cidr(oldSelf.cidr))",message="ipv4.cidr can only grow: the range before must lie in it, because pods have addresses of it"
	// +kubebuilder:validation:XValidation:rule="!has(self.part) || isCIDR(self.part) && isCIDR(self.cidr) && cidr(self.part).ip().family() == 4 && cidr(self.cidr).containsCIDR(cidr(self.part)) && cidr(self.part) == cidr(self.part).masked() && cidr(self.part).prefixLength() <= self.nodePrefixLength",message="ipv4.part must be a range of IPv4 in ipv4.cidr that is not smaller than a node's part, such as 10.70.16.0/20"
	// +kubebuilder:validation:XValidation:rule="!has(self.part) || !has(oldSelf.part) || !isCIDR(self.part) || !isCIDR(oldSelf.part) || cidr(self.part).containsCIDR(cidr(oldSelf.part))",message="ipv4.part can only grow: the part before must lie in it, because pods have addresses of it"
	// +kubebuilder:validation:XValidation:rule="!has(self.static) || isCIDR(self.static) && isCIDR(self.cidr) && cidr(self.static).ip().family() == 4 && cidr(self.cidr).containsCIDR(cidr(self.static)) && cidr(self.static) == cidr(self.static).masked()",message="ipv4.static must be a range of IPv4 in ipv4.cidr, written by its first address, such as 10.70.255.0/24"
	// +kubebuilder:validation:XValidation:rule="!has(self.static) || !has(self.part)",message="ipv4.static needs a network of one cluster: leave out part"
	// +kubebuilder:validation:XValidation:rule="!has(oldSelf.static) || has(self.static) && isCIDR(self.static) && isCIDR(oldSelf.static) && cidr(self.static).containsCIDR(cidr(oldSelf.static))",message="ipv4.static can only be added or grow: pods have addresses of it"
	// +required
	IPv4 Range4 `json:"ipv4,omitzero"`

	// ipv6 is a range for a second address of each pod. Timed messages and all others can use it.
	// +kubebuilder:validation:XValidation:rule="isCIDR(self.cidr) && cidr(self.cidr).ip().family() == 6",message="ipv6.cidr must be a range of IPv6 such as fd42::/48"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || cidr(self.cidr) == cidr(self.cidr).masked()",message="ipv6.cidr has bits set after its prefix; write the range's first address, such as fd42::/48"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || (cidr(self.cidr).prefixLength() <= self.nodePrefixLength && self.nodePrefixLength - cidr(self.cidr).prefixLength() <= 16)",message="ipv6.nodePrefixLength must be that of cidr or up to 16 more: it divides the range among nodes"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || !isCIDR(oldSelf.cidr) || cidr(self.cidr).containsCIDR(cidr(oldSelf.cidr))",message="ipv6.cidr can only grow: the range before must lie in it, because pods have addresses of it"
	// +kubebuilder:validation:XValidation:rule="!has(self.part) || isCIDR(self.part) && isCIDR(self.cidr) && cidr(self.part).ip().family() == 6 && cidr(self.cidr).containsCIDR(cidr(self.part)) && cidr(self.part) == cidr(self.part).masked() && cidr(self.part).prefixLength() <= self.nodePrefixLength",message="ipv6.part must be a range of IPv6 in ipv6.cidr that is not smaller than a node's part, such as fd42:0:0:1000::/52"
	// +kubebuilder:validation:XValidation:rule="!has(self.part) || !has(oldSelf.part) || !isCIDR(self.part) || !isCIDR(oldSelf.part) || cidr(self.part).containsCIDR(cidr(oldSelf.part))",message="ipv6.part can only grow: the part before must lie in it, because pods have addresses of it"
	// +kubebuilder:validation:XValidation:rule="!has(self.static) || isCIDR(self.static) && isCIDR(self.cidr) && cidr(self.static).ip().family() == 6 && cidr(self.cidr).containsCIDR(cidr(self.static)) && cidr(self.static) == cidr(self.static).masked()",message="ipv6.static must be a range of IPv6 in ipv6.cidr, written by its first address, such as fd42:0:0:ffff::/64"
	// +kubebuilder:validation:XValidation:rule="!has(self.static) || !has(self.part)",message="ipv6.static needs a network of one cluster: leave out part"
	// +kubebuilder:validation:XValidation:rule="!has(oldSelf.static) || has(self.static) && isCIDR(self.static) && isCIDR(oldSelf.static) && cidr(self.static).containsCIDR(cidr(oldSelf.static))",message="ipv6.static can only be added or grow: pods have addresses of it"
	// +optional
	IPv6 *Range6 `json:"ipv6,omitempty"`

	// span makes the network one network of several clusters. Only a hub reads it: ktsn-federator divides the ranges among the clusters
	// and creates the network in each of them with its ipv4.part and without span.
	// +optional
	Span *Span `json:"span,omitempty"`

	// mtu of the pods' interfaces in bytes. By default, or if 0, it is the MTU of the uplink minus 50, and minus 37 more with
	// encryption.
	// +kubebuilder:validation:XValidation:rule="self == 0 || (self >= 1280 && self <= 65535)",message="mtu must be 1280 to 65535 bytes, or 0 for what the uplink leaves"
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// port is the UDP port to which nodes send the network's VXLAN packets. Several networks can have the same. Encrypted packets go to
	// encryption.port of the chart instead, and port must differ from it. It cannot be changed.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="port cannot be changed: the nodes' tunnels have it; make another TSNNetwork and move the pods to it"
	// +kubebuilder:default=4789
	// +optional
	Port int32 `json:"port,omitempty"`

	// uplinks requires certain interfaces between nodes. The first entry whose nodeSelector matches a node applies; if none matches, pods
	// cannot be attached there. By default the interface is that of the node's ktsnd. If the entry names a different one, the node reports
	// an error.
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	Uplinks []Uplink `json:"uplinks,omitempty"`

	// linkSpeed is the speed of the slowest uplink, such as 1Gbit or 100Mbit. If it is set, the schedule is checked against it, and
	// nodes with slower links report it.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]{0,6}(Mbit|Gbit)$')",message="linkSpeed must be a whole number with Mbit or Gbit, such as 1Gbit"
	// +optional
	LinkSpeed string `json:"linkSpeed,omitempty"`

	// trafficClasses maps messages to traffic classes and classes to PCP values. It applies to all frames of a node's ktsnd, so only
	// one network of a cluster can have it.
	// +optional
	TrafficClasses *TrafficClasses `json:"trafficClasses,omitempty"`

	// schedule is the gate schedule of the traffic classes (IEEE 802.1Qbv). All nodes start it at the same base time. The gates belong
	// to the node's uplink, so only one network of a cluster can have a schedule.
	// +optional
	Schedule *GateParameterTable `json:"schedule,omitempty"`

	// capture selects the frames that ktsnd takes from pods in addition to messages through libktsn.so. None: no frames; datagrams with a
	// transmit time that libktsn.so does not see are dropped. Timed: frames with a transmit time. All: all frames, so that the gates apply
	// to everything that a pod sends; frames without a transmit time leave in the next window of their class, or through the kernel while
	// ktsnd does not answer. Changes apply to pods that are created afterwards.
	// +kubebuilder:validation:Enum=None;Timed;All
	// +kubebuilder:default=Timed
	// +optional
	Capture string `json:"capture,omitempty"`

	// encryption of frames between nodes (ESP with AES-GCM). None: frames are not encrypted. Preferred: frames are encrypted while all
	// nodes of the network can; otherwise the condition Degraded names a node that cannot. Required: frames that cannot be encrypted are
	// not sent, and nodes that cannot encrypt reject pods. Encryption reduces the MTU of interfaces by 37. After a change, frames are lost
	// until all nodes know the new value.
	// +kubebuilder:validation:Enum=None;Preferred;Required
	// +kubebuilder:default=None
	// +optional
	Encryption string `json:"encryption,omitempty"`

	// routes are further routes of the pods through the network. Multicast without a named interface goes through the network with a route to
	// 224.0.0.0/4 or ff00::/8. Changes apply to pods that are created afterwards.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=to
	// +optional
	Routes []NetworkRoute `json:"routes,omitempty"`

	// cards are PCI addresses of network cards, such as 0000:02:00.0, for pods of Kata with the annotation kubernetsn.io/device: vfio. Each
	// pod gets one card instead of an interface. A node uses the listed cards that it has and does not use itself.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^([0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`
	// +listType=set
	// +optional
	Cards []string `json:"cards,omitempty"`

	// cardNamespaces are the namespaces whose pods may have cards. By default no pod may. A virtual machine with a card sends directly to
	// the wire: the network guarantees nothing about its frames.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	CardNamespaces []string `json:"cardNamespaces,omitempty"`

	// receive selects the path of datagrams from other nodes to the pods. By default it is the kernel's.
	// +optional
	Receive *Receive `json:"receive,omitempty"`

	// clock is the required accuracy of the nodes' clocks, and what happens on a node whose clock is worse. By default clocks are not
	// checked.
	// +optional
	Clock *ClockRequirement `json:"clock,omitempty"`

	// limits of each pod of the network at its node's ktsnd. The defaults are options of ktsnd. A pod on several networks has the lowest of
	// each limit.
	// +optional
	Limits *PodLimits `json:"limits,omitempty"`

	// namespaceSelector selects the namespaces whose pods may be on the network. By default all may. The label
	// kubernetes.io/metadata.name, which each namespace has, selects a namespace by name.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

const (
	// DefaultPort is the UDP port of tunnels, unless a network has another one.
	DefaultPort = 4789
	// DefaultEncryptedPort is the UDP port of encrypted tunnels, unless the chart's encryption.port is another one.
	DefaultEncryptedPort = 4793
)

// TunnelPort returns the UDP port of the network's tunnels while they are not encrypted. Objects that did not pass through the API server
// have no default.
func (s *TSNNetworkSpec) TunnelPort() uint16 {
	if s.Port == 0 {
		return DefaultPort
	}
	return uint16(s.Port)
}

// Range4 is an IPv4 range that is divided into node subnets.
type Range4 struct {
	// cidr is the whole range, such as 10.70.0.0/16. It can grow but not shrink.
	// +kubebuilder:validation:MaxLength=18
	// +required
	CIDR string `json:"cidr"`
	// nodePrefixLength is the prefix length of a node subnet; 24 gives 254 addresses. It cannot be changed.
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=32
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="nodePrefixLength cannot be changed; make another TSNNetwork and move the pods to it"
	// +kubebuilder:default=24
	// +optional
	NodePrefixLength int32 `json:"nodePrefixLength,omitempty"`
	// part is this cluster's share of cidr, such as 10.70.16.0/20, on a network of several clusters. Its nodes have subnets of it.
	// A hub sets it. It can grow but not shrink.
	// +kubebuilder:validation:MaxLength=18
	// +optional
	Part string `json:"part,omitempty"`
	// static is a part of cidr, such as 10.70.255.0/24, that nodes get no subnets of. A pod that requests an address of it can have it on any
	// node. It can be added and grow, but not shrink.
	// +kubebuilder:validation:MaxLength=18
	// +optional
	Static string `json:"static,omitempty"`
}

// Range6 is an IPv6 range that is divided into node subnets.
type Range6 struct {
	// cidr is the whole range, such as fd42::/48. It can grow but not shrink.
	// +kubebuilder:validation:MaxLength=43
	// +required
	CIDR string `json:"cidr"`
	// nodePrefixLength is the prefix length of a node subnet. It cannot be changed.
	// +kubebuilder:validation:Minimum=16
	// +kubebuilder:validation:Maximum=126
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="nodePrefixLength cannot be changed; make another TSNNetwork and move the pods to it"
	// +kubebuilder:default=64
	// +optional
	NodePrefixLength int32 `json:"nodePrefixLength,omitempty"`
	// part is this cluster's share of cidr, such as fd42:0:0:1000::/52, on a network of several clusters. Its nodes have subnets of it.
	// A hub sets it. It can grow but not shrink.
	// +kubebuilder:validation:MaxLength=43
	// +optional
	Part string `json:"part,omitempty"`
	// static is a part of cidr, such as fd42:0:0:ffff::/64, that nodes get no subnets of. A pod that requests an address of it can have it on any
	// node. It can be added and grow, but not shrink.
	// +kubebuilder:validation:MaxLength=43
	// +optional
	Static string `json:"static,omitempty"`
}

// Uplink is the interface of some nodes to the other nodes.
type Uplink struct {
	// nodeSelector selects nodes by their labels. By default it selects all.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// interface is the name of the network interface on these nodes, such as eno1.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^/:[:space:]]+$') && self != '.' && self != '..'",message="interface must be the name of a network interface, such as eno1"
	// +required
	Interface string `json:"interface"`
	// type requires how frames reach the interface. Direct: ktsnd adds the tunnel headers itself and sends through the interface. OVS:
	// Open vSwitch does both. By default both are accepted. If ktsnd uses the other type, the node reports an error.
	// +kubebuilder:validation:Enum=Direct;OVS
	// +optional
	Type string `json:"type,omitempty"`
}

// TrafficClasses maps messages to traffic classes and classes to PCP values.
type TrafficClasses struct {
	// priorityMap has the traffic class of each SO_PRIORITY from 0 to 15; larger values are taken modulo 16. The default is Table 8-5
	// of IEEE Std 802.1Q.
	// +kubebuilder:validation:MinItems=16
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=7
	// +listType=atomic
	// +kubebuilder:default={1,0,2,3,4,5,6,7,1,0,2,3,4,5,6,7}
	// +optional
	PriorityMap []int32 `json:"priorityMap,omitempty"`
	// priorityCodePoints has the PCP of each class from 0 to 7, for frames that ktsnd tags.
	// +kubebuilder:validation:MinItems=8
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=7
	// +listType=atomic
	// +kubebuilder:default={1,0,2,3,4,5,6,7}
	// +optional
	PriorityCodePoints []int32 `json:"priorityCodePoints,omitempty"`
}

// Span selects the clusters of a network.
type Span struct {
	// clusters selects the clusters by the labels of Karmada's Cluster objects. By default all are selected.
	// +optional
	Clusters *metav1.LabelSelector `json:"clusters,omitempty"`
	// clusterPrefixLength is the prefix length of a cluster's share of spec.ipv4.cidr. spec.ipv6.cidr is divided into the same number of
	// shares. It cannot be changed.
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=30
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterPrefixLength cannot be changed; make another TSNNetwork and move the pods to it"
	// +required
	ClusterPrefixLength int32 `json:"clusterPrefixLength"`
}

// PodLimits are the limits of a pod at its node's ktsnd. The defaults are ktsnd's options (--pod-…). A pod on several networks has the
// lowest of each limit. Changes apply at once: a pod above a new limit keeps what it has and gets no more.
type PodLimits struct {
	// processes is the number of processes with timed sockets. SO_TXTIME of further processes is refused.
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 4096",message="limits.processes must be 1 to 4096 processes"
	// +optional
	Processes *int32 `json:"processes,omitempty"`
	// sockets is the number of sockets with SO_TXTIME.
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 1048576",message="limits.sockets must be 1 to 1048576 sockets"
	// +optional
	Sockets *int32 `json:"sockets,omitempty"`
	// memory of the rings between the pod's processes and ktsnd, in MiB. A process needs about 0.8 MiB with an MTU of 1500.
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 1048576",message="limits.memory must be 1 to 1048576 MiB, without the unit"
	// +optional
	Memory *int32 `json:"memory,omitempty"`
	// pending is the number of messages that ktsnd has taken and not yet sent. Further messages wait in the pod's processes, whose send
	// calls then block or fail with EAGAIN.
	// +kubebuilder:validation:XValidation:rule="self >= 64 && self <= 1048576",message="limits.pending must be 64 to 1048576 messages"
	// +optional
	Pending *int32 `json:"pending,omitempty"`
	// rate is the number of messages that ktsnd takes per second; 0 is no limit. Further messages wait, as with pending.
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 1000000000",message="limits.rate must be 0 to 1000000000 messages a second; 0 is any"
	// +optional
	Rate *int32 `json:"rate,omitempty"`
	// doorbells is how often the pod may wake ktsnd per second; 0 is no limit. Above the limit ktsnd polls every millisecond.
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 1000000000",message="limits.doorbells must be 0 to 1000000000 a second; 0 is any"
	// +optional
	Doorbells *int32 `json:"doorbells,omitempty"`
	// horizon is how far ahead transmit times may be: at most 86400s, such as 10s. Messages further ahead are dropped, and counted as
	// drop-horizon.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,14}(ns|us|ms|s)$') && duration(self) <= duration('86400s')",message="limits.horizon must be a whole number with ns, us, ms or s, at most 86400s, such as 10s"
	// +optional
	Horizon string `json:"horizon,omitempty"`
}

// Receive selects the path of datagrams from other nodes to the pods of a network. If a node's kernel does not support it, the kernel's
// path is used. Changes apply to pods that are created afterwards.
type Receive struct {
	// path of datagrams over IPv4 from the uplink to the pod's interface. Bridge: the kernel's tunnel device and bridge. Redirect: a BPF
	// program at the uplink redirects them, bypassing both.
	// +kubebuilder:validation:Enum=Bridge;Redirect
	// +kubebuilder:default=Bridge
	// +optional
	Path string `json:"path,omitempty"`
	// rings allows receive rings: memory from which libktsn.so reads datagrams. Refused: all datagrams go through the kernel's sockets.
	// Allowed: pods with the annotation kubernetsn.io/receive have rings; packet filters of the node do not see these datagrams, and a
	// pod with packet filters of its own has no rings.
	// +kubebuilder:validation:Enum=Refused;Allowed
	// +kubebuilder:default=Refused
	// +optional
	Rings string `json:"rings,omitempty"`
}
