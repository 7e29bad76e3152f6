// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxServicePods is how many endpoints, and how many clients, the status of a TSNService names; MaxServiceNodes of how many nodes it has keys.
const (
	MaxServicePods  = 200
	MaxServiceNodes = 100
)

// FirstLinkVNI and LastLinkVNI bound the VXLAN network identifiers of links. Networks have smaller ones.
const (
	FirstLinkVNI int32 = 0x800000
	LastLinkVNI  int32 = 0xffffff
)

// TSNService gives pods point-to-point links to pods that offer it, in this cluster or in another one of a hub. The label
// client.kubernetsn.io/SERVICE makes a pod a client, the label endpoint.kubernetsn.io/SERVICE an endpoint. A link is an interface in both
// pods, with an address at each end and no address translation between them. The terms are those of Network Service Mesh
// (networkservicemesh.io).
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=tsnservices,categories=kubernetsn
// +kubebuilder:printcolumn:name="Endpoints",type=integer,JSONPath=`.status.endpoints`
// +kubebuilder:printcolumn:name="Clients",type=integer,JSONPath=`.status.clients`
// +kubebuilder:printcolumn:name="Linked",type=integer,JSONPath=`.status.linked`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,28}[a-z0-9])?$')",message="metadata.name must have 1 to 30 small letters, digits and hyphens and begin with a letter: it is part of labels"
type TSNService struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state of the service.
	// +required
	Spec TSNServiceSpec `json:"spec"`
	// status is the state of the service in this cluster. The operator writes it.
	// +optional
	Status TSNServiceStatus `json:"status,omitzero"`
}

// TSNServiceList is a list of services.
//
// +kubebuilder:object:root=true
type TSNServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TSNService `json:"items"`
}

// TSNServiceSpec selects the pods that get links, and the properties of the links.
//
// +kubebuilder:validation:XValidation:rule="has(self.ipv4) || has(self.ipv6)",message="ipv4 or ipv6 must be given: the ends of a link need addresses"
// +kubebuilder:validation:XValidation:rule="has(self.ipv4) == has(oldSelf.ipv4) && has(self.ipv6) == has(oldSelf.ipv6)",message="ipv4 and ipv6 cannot be added to or taken from a service, because an older range takes precedence over others; make another TSNService"
type TSNServiceSpec struct {
	// endpoint selects endpoints among the pods of the service's namespace with the label endpoint.kubernetsn.io/SERVICE. By default it
	// selects all of them.
	// +optional
	Endpoint *metav1.LabelSelector `json:"endpoint,omitempty"`

	// clientNamespaces selects further namespaces whose pods may be clients. Their pods have the label
	// client.kubernetsn.io/SERVICE.NAMESPACE. By default there are none.
	// +optional
	ClientNamespaces *metav1.LabelSelector `json:"clientNamespaces,omitempty"`

	// clusters are the names of the clusters that get the service. Only a hub reads it. By default all do.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	Clusters []string `json:"clusters,omitempty"`

	// prefer selects the endpoint of a client among those below their limit. SameNode: one on the client's node, else in its cluster, else
	// any. SameCluster: one in the client's cluster, else any. Any: the endpoint with the fewest links; endpoints of other clusters count
	// only if the cluster has none, so that links do not need the hub.
	// +kubebuilder:validation:Enum=SameNode;SameCluster;Any
	// +kubebuilder:default=SameNode
	// +optional
	Prefer string `json:"prefer,omitempty"`

	// ipv4 is the range from which each link gets two addresses (/31, RFC 3021).
	// +kubebuilder:validation:XValidation:rule="isCIDR(self.linkCIDR) && cidr(self.linkCIDR).ip().family() == 4 && cidr(self.linkCIDR) == cidr(self.linkCIDR).masked() && cidr(self.linkCIDR).prefixLength() <= 30",message="ipv4.linkCIDR must be a range of IPv4 of /30 or larger, written by its first address, such as 10.200.0.0/16"
	// +kubebuilder:validation:XValidation:rule="!has(self.part) || isCIDR(self.part) && isCIDR(self.linkCIDR) && cidr(self.linkCIDR).containsCIDR(cidr(self.part))",message="ipv4.part must be a range in ipv4.linkCIDR"
	// +optional
	IPv4 *LinkRange `json:"ipv4,omitempty"`

	// ipv6 is the range from which each link gets two addresses (/127, RFC 6164).
	// +kubebuilder:validation:XValidation:rule="isCIDR(self.linkCIDR) && cidr(self.linkCIDR).ip().family() == 6 && cidr(self.linkCIDR) == cidr(self.linkCIDR).masked() && cidr(self.linkCIDR).prefixLength() <= 126",message="ipv6.linkCIDR must be a range of IPv6 of /126 or larger, written by its first address, such as fd00:200::/64"
	// +kubebuilder:validation:XValidation:rule="!has(self.part) || isCIDR(self.part) && isCIDR(self.linkCIDR) && cidr(self.linkCIDR).containsCIDR(cidr(self.part))",message="ipv6.part must be a range in ipv6.linkCIDR"
	// +optional
	IPv6 *LinkRange `json:"ipv6,omitempty"`

	// vnis is this cluster's share of the VXLAN network identifiers of links. A hub sets it. The default is 0x800000 to 0xffffff.
	// +optional
	VNIs *VNIRange `json:"vnis,omitempty"`

	// mtu of the links' interfaces in bytes. By default, or if 0, each link has the largest that its nodes and the path between them can carry.
	// +kubebuilder:validation:XValidation:rule="self == 0 || (self >= 1280 && self <= 65535)",message="mtu must be 1280 to 65535 bytes, or 0 for what the way carries"
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// encryption of frames between nodes. None: frames are not encrypted. Preferred: they are if both nodes can. Required: there is no link
	// unless both nodes can. Frames within a node are not encrypted.
	// +kubebuilder:validation:Enum=None;Preferred;Required
	// +kubebuilder:default=None
	// +optional
	Encryption string `json:"encryption,omitempty"`

	// routes for the pods at the ends of links, to ranges beyond the other end.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Routes []ServiceRoute `json:"routes,omitempty"`

	// limits of links.
	// +optional
	Limits *LinkLimits `json:"limits,omitempty"`

	// chain lists the elements between a client and its endpoint, from the client on. The client gets a link to a pod of the first element,
	// that pod to one of the second, and the last one to the endpoint. Transmit times apply to the first hop only.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.filter(b, b.name == a.name).size() == 1)",message="two elements of chain have one name; the chain would be a loop"
	// +listType=atomic
	// +optional
	Chain []ChainElement `json:"chain,omitempty"`
}

// LinkRange is a range of addresses of links.
type LinkRange struct {
	// linkCIDR is the whole range. It cannot be changed.
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="linkCIDR cannot be changed, because pods have addresses of it; make another TSNService"
	// +required
	LinkCIDR string `json:"linkCIDR"`
	// part is this cluster's share of linkCIDR. A hub sets it.
	// +kubebuilder:validation:MaxLength=43
	// +optional
	Part string `json:"part,omitempty"`
}

// VNIRange is a range of VXLAN network identifiers of links.
//
// +kubebuilder:validation:XValidation:rule="self.first <= self.last",message="vnis.first must not be larger than vnis.last"
type VNIRange struct {
	// first identifier of the range.
	// +kubebuilder:validation:Minimum=8388608
	// +kubebuilder:validation:Maximum=16777215
	// +required
	First int32 `json:"first"`
	// last identifier of the range.
	// +kubebuilder:validation:Minimum=8388608
	// +kubebuilder:validation:Maximum=16777215
	// +required
	Last int32 `json:"last"`
}

// ServiceRoute is a route to addresses beyond an end of a link.
type ServiceRoute struct {
	// to is the range of addresses.
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="to must be a range written by its first address, such as 10.9.0.0/16"
	// +required
	To string `json:"to"`
	// behind is the end beyond which the addresses are. The route is set at the other end.
	// +kubebuilder:validation:Enum=Endpoint;Client
	// +kubebuilder:default=Endpoint
	// +optional
	Behind string `json:"behind,omitempty"`
}

// LinkLimits limits the number of links.
type LinkLimits struct {
	// linksPerEndpoint is the largest number of clients of one endpoint.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	// +kubebuilder:default=1024
	// +optional
	LinksPerEndpoint int32 `json:"linksPerEndpoint,omitempty"`
}

// ChainElement selects pods in the middle of a chain.
type ChainElement struct {
	// name of the element.
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// selector selects its pods among those with both labels, client.kubernetsn.io/SERVICE and endpoint.kubernetsn.io/SERVICE.
	// +required
	Selector metav1.LabelSelector `json:"selector"`
	// forward selects what the kernel of such a pod forwards.
	// +kubebuilder:validation:items:Enum=IPv4;IPv6
	// +kubebuilder:validation:MaxItems=2
	// +listType=set
	// +optional
	Forward []string `json:"forward,omitempty"`
}

// TSNServiceStatus is the state of a service in this cluster.
type TSNServiceStatus struct {
	// endpoints is the number of endpoints in the cluster.
	// +optional
	Endpoints int32 `json:"endpoints"`
	// clients is the number of clients in the cluster.
	// +optional
	Clients int32 `json:"clients"`
	// linked is the number of clients with links that are up.
	// +optional
	Linked int32 `json:"linked"`
	// offers are pods of the cluster that can take links from other clusters, by name, at most 200.
	// +kubebuilder:validation:MaxItems=200
	// +listType=atomic
	// +optional
	Offers []ServicePod `json:"offers,omitempty"`
	// wants are clients that need a link to another cluster, at most 200: first the ones without a link, then the ones that a hub has
	// linked.
	// +kubebuilder:validation:MaxItems=200
	// +listType=atomic
	// +optional
	Wants []ServicePod `json:"wants,omitempty"`
	// left are the UIDs of pods that a hub has linked and that no longer need the link, at most 200. If wants cannot list all clients, a
	// hub uses it to find the links to remove.
	// +kubebuilder:validation:MaxItems=200
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=atomic
	// +optional
	Left []string `json:"left,omitempty"`
	// accepted has the range and the routes of spec that did not overlap the cluster's own addresses when the operator first checked them.
	// A node that reports such an address later does not take it from this service.
	// +kubebuilder:validation:MaxItems=66
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=atomic
	// +optional
	Accepted []string `json:"accepted,omitempty"`

	// nodes of the pods in offers and wants, with their signed keys, for a service with spec.encryption.
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	// +optional
	Nodes []ServiceNode `json:"nodes,omitempty"`
	// conditions: Ready.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ServiceNode is a node with pods of a service.
type ServiceNode struct {
	// name of the node.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// nodeKeys are the node's keys, signed by the cluster.
	// +required
	NodeKeys LinkNodeKeys `json:"nodeKeys"`
}

// ServicePod is a pod at an end of links.
type ServicePod struct {
	// namespace of the pod.
	// +required
	Namespace string `json:"namespace"`
	// pod is the name of the pod.
	// +required
	Pod string `json:"pod"`
	// uid of the pod.
	// +required
	UID string `json:"uid"`
	// node that the pod runs on.
	// +required
	Node string `json:"node"`
	// nodeAddress is the IPv4 address of the node's tunnels.
	// +required
	NodeAddress string `json:"nodeAddress"`
	// interface is the value of the pod's label: the interface name of a client, or the prefix of an endpoint's interface names.
	// +required
	Interface string `json:"interface"`
	// onward is the name of the interface to the next hop, for an element of the chain.
	// +optional
	Onward string `json:"onward,omitempty"`
	// element is the name of the chain element; empty for endpoints and clients.
	// +optional
	Element string `json:"element,omitempty"`
	// links is the number of links of the cluster's operator to the pod.
	// +optional
	Links int32 `json:"links,omitempty"`
	// mtu is the largest MTU that interfaces of links can have on the node; 0 if unknown.
	// +optional
	MTU int32 `json:"mtu,omitempty"`
}
