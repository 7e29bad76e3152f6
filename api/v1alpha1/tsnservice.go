// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxServicePods is how many endpoints, and how many clients, the status of a TSNService names; MaxServiceNodes of how many nodes it tells keys.
const (
	MaxServicePods  = 200
	MaxServiceNodes = 100
)

// FirstLinkVNI and LastLinkVNI bound the VXLAN network identifiers of links. Networks have smaller ones.
const (
	FirstLinkVNI int32 = 0x800000
	LastLinkVNI  int32 = 0xffffff
)

// TSNService gives pods point-to-point links to pods that offer it, in this cluster or in another one of a hub. A pod is a client of it
// by the label client.kubernetsn.io/SERVICE, an endpoint by the label endpoint.kubernetsn.io/SERVICE. A link is an interface in each of both
// pods, with an address at each end and nothing between them that changes one. The words are those of Network Service Mesh
// (networkservicemesh.io) where the thing is the same.
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

	// spec is who may have links to whom.
	// +required
	Spec TSNServiceSpec `json:"spec"`
	// status is what this cluster has of it. The operator writes it.
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

// TSNServiceSpec is who may have links to whom, and what the links are like.
//
// +kubebuilder:validation:XValidation:rule="has(self.ipv4) || has(self.ipv6)",message="ipv4 or ipv6 must be given: the ends of a link need addresses"
// +kubebuilder:validation:XValidation:rule="has(self.ipv4) == has(oldSelf.ipv4) && has(self.ipv6) == has(oldSelf.ipv6)",message="ipv4 and ipv6 cannot be added to or taken from a service, because an older range counts before others; make another TSNService"
type TSNServiceSpec struct {
	// endpoint selects, among the pods of the service's namespace with the label endpoint.kubernetsn.io/SERVICE, those that links may lead to.
	// By default it selects all of them.
	// +optional
	Endpoint *metav1.LabelSelector `json:"endpoint,omitempty"`

	// clientNamespaces selects the namespaces whose pods may be clients, beside the service's own. Those name the service by
	// client.kubernetsn.io/SERVICE.NAMESPACE. By default there are none.
	// +optional
	ClientNamespaces *metav1.LabelSelector `json:"clientNamespaces,omitempty"`

	// clusters are the names of the clusters on which the service is. Only a hub reads it. By default they are all.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	Clusters []string `json:"clusters,omitempty"`

	// prefer says which endpoint a client gets, of those that have room: one of its node, else of its cluster, else any (SameNode); one of its
	// cluster, else any (SameCluster); the one with the fewest links (Any). Any counts the endpoints of the cluster alone as long as there are
	// some, so that links need no hub.
	// +kubebuilder:validation:Enum=SameNode;SameCluster;Any
	// +kubebuilder:default=SameNode
	// +optional
	Prefer string `json:"prefer,omitempty"`

	// ipv4 is the range of which each link gets two addresses (/31, RFC 3021).
	// +kubebuilder:validation:XValidation:rule="isCIDR(self.linkCIDR) && cidr(self.linkCIDR).ip().family() == 4 && cidr(self.linkCIDR) == cidr(self.linkCIDR).masked() && cidr(self.linkCIDR).prefixLength() <= 30",message="ipv4.linkCIDR must be a range of IPv4 of /30 or larger, written by its first address, such as 10.200.0.0/16"
	// +kubebuilder:validation:XValidation:rule="!has(self.part) || isCIDR(self.part) && isCIDR(self.linkCIDR) && cidr(self.linkCIDR).containsCIDR(cidr(self.part))",message="ipv4.part must be a range in ipv4.linkCIDR"
	// +optional
	IPv4 *LinkRange `json:"ipv4,omitempty"`

	// ipv6 is the range of which each link gets two addresses (/127, RFC 6164).
	// +kubebuilder:validation:XValidation:rule="isCIDR(self.linkCIDR) && cidr(self.linkCIDR).ip().family() == 6 && cidr(self.linkCIDR) == cidr(self.linkCIDR).masked() && cidr(self.linkCIDR).prefixLength() <= 126",message="ipv6.linkCIDR must be a range of IPv6 of /126 or larger, written by its first address, such as fd00:200::/64"
	// +kubebuilder:validation:XValidation:rule="!has(self.part) || isCIDR(self.part) && isCIDR(self.linkCIDR) && cidr(self.linkCIDR).containsCIDR(cidr(self.part))",message="ipv6.part must be a range in ipv6.linkCIDR"
	// +optional
	IPv6 *LinkRange `json:"ipv6,omitempty"`

	// vnis is this cluster's share of the VXLAN network identifiers of links. A hub gives it. By default it is all of 0x800000 to 0xffffff.
	// +optional
	VNIs *VNIRange `json:"vnis,omitempty"`

	// mtu of the links' interfaces in bytes. By default, or 0, each link has what its two nodes and the way between them carry.
	// +kubebuilder:validation:XValidation:rule="self == 0 || (self >= 1280 && self <= 65535)",message="mtu must be 1280 to 65535 bytes, or 0 for what the way carries"
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// encryption says whether what links send from node to node is encrypted. None: no. Preferred: where both nodes can. Required: always, or
	// there is no link. What stays on a node is not.
	// +kubebuilder:validation:Enum=None;Preferred;Required
	// +kubebuilder:default=None
	// +optional
	Encryption string `json:"encryption,omitempty"`

	// routes are set in the pods at the ends of links, for what lies behind the other end.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Routes []ServiceRoute `json:"routes,omitempty"`

	// limits of links.
	// +optional
	Limits *LinkLimits `json:"limits,omitempty"`

	// chain are the pods through which a client reaches its endpoint, in the order from the client. A client gets a link to the first, this
	// one to the second, and the last to the endpoint. Only the first hop keeps transmit times: the kernel of a pod in the middle
	// forwards what comes, at once.
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
	// part is this cluster's share of linkCIDR. A hub gives it.
	// +kubebuilder:validation:MaxLength=43
	// +optional
	Part string `json:"part,omitempty"`
}

// VNIRange are VXLAN network identifiers from first to last, of those that networks cannot have.
//
// +kubebuilder:validation:XValidation:rule="self.first <= self.last",message="vnis.first must not be larger than vnis.last"
type VNIRange struct {
	// first of them.
	// +kubebuilder:validation:Minimum=8388608
	// +kubebuilder:validation:Maximum=16777215
	// +required
	First int32 `json:"first"`
	// last of them.
	// +kubebuilder:validation:Minimum=8388608
	// +kubebuilder:validation:Maximum=16777215
	// +required
	Last int32 `json:"last"`
}

// ServiceRoute leads to addresses behind an end of a link.
type ServiceRoute struct {
	// to is the range of addresses.
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="to must be a range written by its first address, such as 10.9.0.0/16"
	// +required
	To string `json:"to"`
	// behind says at which end the addresses are. The route is set at the other one.
	// +kubebuilder:validation:Enum=Endpoint;Client
	// +kubebuilder:default=Endpoint
	// +optional
	Behind string `json:"behind,omitempty"`
}

// LinkLimits are the most links that there may be.
type LinkLimits struct {
	// linksPerEndpoint is how many clients one endpoint serves.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	// +kubebuilder:default=1024
	// +optional
	LinksPerEndpoint int32 `json:"linksPerEndpoint,omitempty"`
}

// ChainElement is a kind of pods through which links lead.
type ChainElement struct {
	// name of the element.
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// selector selects its pods, among those of the service's namespace with both labels, client.kubernetsn.io/SERVICE and
	// endpoint.kubernetsn.io/SERVICE.
	// +required
	Selector metav1.LabelSelector `json:"selector"`
	// forward says what the kernel of such a pod forwards.
	// +kubebuilder:validation:items:Enum=IPv4;IPv6
	// +kubebuilder:validation:MaxItems=2
	// +listType=set
	// +optional
	Forward []string `json:"forward,omitempty"`
}

// TSNServiceStatus is what this cluster has of a service.
type TSNServiceStatus struct {
	// endpoints is how many pods of the cluster are endpoints.
	// +optional
	Endpoints int32 `json:"endpoints"`
	// clients is how many pods of the cluster are clients.
	// +optional
	Clients int32 `json:"clients"`
	// linked is how many of them have links that are up.
	// +optional
	Linked int32 `json:"linked"`
	// offers are pods of the cluster to which others may be linked, in the order of their names, no more than 200.
	// +kubebuilder:validation:MaxItems=200
	// +listType=atomic
	// +optional
	Offers []ServicePod `json:"offers,omitempty"`
	// wants are clients that the cluster alone cannot link, no more than 200: first those without a link, then those that a hub has linked. A hub
	// links them.
	// +kubebuilder:validation:MaxItems=200
	// +listType=atomic
	// +optional
	Wants []ServicePod `json:"wants,omitempty"`
	// left are the UIDs of pods that a hub has linked and that want no such link any more, no more than 200. Where wants has no room for all, a hub
	// knows by it which links to remove.
	// +kubebuilder:validation:MaxItems=200
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=atomic
	// +optional
	Left []string `json:"left,omitempty"`
	// accepted are the range and the routes of spec that had no address of the cluster's own when the operator first checked them. A node that reports
	// such an address later does not take it from this service. Only the operator writes this field.
	// +kubebuilder:validation:MaxItems=66
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=atomic
	// +optional
	Accepted []string `json:"accepted,omitempty"`

	// nodes are those of the offers and wants of a service with spec.encryption, with what the cluster says of their keys.
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

// ServiceNode is a node on which pods of a service are.
type ServiceNode struct {
	// name of the node.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// nodeKeys are what the cluster says of the node's keys.
	// +required
	NodeKeys LinkNodeKeys `json:"nodeKeys"`
}

// ServicePod is a pod at an end of links.
type ServicePod struct {
	// namespace of the pod.
	// +required
	Namespace string `json:"namespace"`
	// pod is its name.
	// +required
	Pod string `json:"pod"`
	// uid of the pod.
	// +required
	UID string `json:"uid"`
	// node that it runs on.
	// +required
	Node string `json:"node"`
	// nodeAddress is where the node's tunnels end.
	// +required
	NodeAddress string `json:"nodeAddress"`
	// interface is what the pod's label says: of a client the name of its interface, of an endpoint what names begin with.
	// +required
	Interface string `json:"interface"`
	// onward is, of an element of the chain, the name of its interface of the link to the next.
	// +optional
	Onward string `json:"onward,omitempty"`
	// element of the chain that the pod is; empty: the endpoint, or a client.
	// +optional
	Element string `json:"element,omitempty"`
	// links is how many links of the cluster's operator lead to the pod.
	// +optional
	Links int32 `json:"links,omitempty"`
	// mtu is the most that interfaces of links can have on the node; 0: not known.
	// +optional
	MTU int32 `json:"mtu,omitempty"`
}
