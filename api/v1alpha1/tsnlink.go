// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TSNLink is one link between two pods. The operator makes it where both are in its cluster, ktsn-federator where they are not.
// The agents of both nodes plug its interfaces into the pods, which may be running. Nobody writes one by hand.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=tsnlinks,categories=kubernetsn
// +kubebuilder:selectablefield:JSONPath=`.spec.client.node`
// +kubebuilder:selectablefield:JSONPath=`.spec.endpoint.node`
// +kubebuilder:selectablefield:JSONPath=`.spec.service`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.service`
// +kubebuilder:printcolumn:name="Client",type=string,JSONPath=`.spec.client.pod`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.endpoint.pod`
// +kubebuilder:printcolumn:name="Up",type=string,JSONPath=`.status.conditions[?(@.type=="Up")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TSNLink struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the link shall be. It cannot be changed but for the addresses of nodes and for routes: a pod that gets another endpoint gets
	// another link.
	// +kubebuilder:validation:XValidation:rule="self.vni == oldSelf.vni && self.service == oldSelf.service && self.client.uid == oldSelf.client.uid && self.endpoint.uid == oldSelf.endpoint.uid",message="vni, service and pods of a TSNLink cannot be changed; make another one"
	// +required
	Spec TSNLinkSpec `json:"spec"`
	// status is what has become of it. The agents of both nodes write it.
	// +optional
	Status TSNLinkStatus `json:"status,omitzero"`
}

// TSNLinkList is a list of links.
//
// +kubebuilder:object:root=true
type TSNLinkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TSNLink `json:"items"`
}

// TSNLinkSpec is what a link shall be.
type TSNLinkSpec struct {
	// service is the name of the TSNService, in the link's namespace.
	// +kubebuilder:validation:MaxLength=30
	// +required
	Service string `json:"service"`
	// vni is the link's VXLAN network identifier, of those that networks cannot have: 0x800000 and above.
	// +kubebuilder:validation:Minimum=8388608
	// +kubebuilder:validation:Maximum=16777215
	// +required
	VNI int32 `json:"vni"`
	// mtu of both interfaces, in bytes; 0: what both nodes and the way between them carry.
	// +optional
	MTU int32 `json:"mtu,omitempty"`
	// encryption of what goes from node to node: that of the service.
	// +kubebuilder:validation:Enum=None;Preferred;Required
	// +optional
	Encryption string `json:"encryption,omitempty"`
	// hop is the place of the link in its chain, counted from the client, where it is 0.
	// +optional
	Hop int32 `json:"hop,omitempty"`
	// client is the end that asked for the link.
	// +required
	Client LinkEnd `json:"client"`
	// endpoint is the end that was asked.
	// +required
	Endpoint LinkEnd `json:"endpoint"`
}

// LinkEnd is a pod at an end of a link.
type LinkEnd struct {
	// cluster is the name of the pod's cluster; empty: the link's own.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// namespace of the pod.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace"`
	// pod is its name.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Pod string `json:"pod"`
	// uid of the pod. By it an agent knows that the pod is one of its node.
	// +kubebuilder:validation:MaxLength=64
	// +required
	UID string `json:"uid"`
	// node that the pod runs on.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Node string `json:"node"`
	// nodeAddress is the IPv4 address at which the node's tunnels end.
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="nodeAddress must be an IPv4 address, such as 192.0.2.1"
	// +required
	NodeAddress string `json:"nodeAddress"`
	// nodeKeys are what the node's cluster says of the node's keys, of a link with encryption to another node.
	// +optional
	NodeKeys *LinkNodeKeys `json:"nodeKeys,omitempty"`
	// interface is the name of the link's interface in the pod.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +required
	Interface string `json:"interface"`
	// addresses of the interface with their prefix lengths, 31 and 127.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=43
	// +listType=atomic
	// +required
	Addresses []string `json:"addresses"`
	// routes are ranges that this end reaches over the link, by the other end's address.
	// +kubebuilder:validation:MaxItems=4096
	// +kubebuilder:validation:items:MaxLength=43
	// +listType=atomic
	// +optional
	Routes []string `json:"routes,omitempty"`
	// forward says what the kernel of the pod forwards, in the middle of a chain.
	// +kubebuilder:validation:items:Enum=IPv4;IPv6
	// +kubebuilder:validation:MaxItems=2
	// +listType=set
	// +optional
	Forward []string `json:"forward,omitempty"`
	// names are those by which this end knows the other one, in its /etc/hosts.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	// +optional
	Names []string `json:"names,omitempty"`
	// hosts are names of what this end reaches behind the other one, in its /etc/hosts, too.
	// +kubebuilder:validation:MaxItems=2048
	// +listType=atomic
	// +optional
	Hosts []LinkHost `json:"hosts,omitempty"`
}

// LinkHost is a name with its addresses.
type LinkHost struct {
	// name of the host.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// addresses of the host, without prefix lengths.
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=39
	// +listType=atomic
	// +required
	Addresses []string `json:"addresses"`
}

// TSNLinkStatus is what has become of a link.
type TSNLinkStatus struct {
	// measuredMTU is the largest packet in bytes that the link was seen to carry; 0: it was not tried yet.
	// +optional
	MeasuredMTU int32 `json:"measuredMTU,omitempty"`
	// since is when the link was first up.
	// +optional
	Since *metav1.MicroTime `json:"since,omitempty"`
	// conditions: ClientPlugged and EndpointPlugged, each by the agent of its node, and Up, by that of the client's. Of links that others than the
	// operator made: Admitted, by the operator; agents plug none that it has not admitted.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
