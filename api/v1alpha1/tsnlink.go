// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TSNLink is one link between two pods. The operator creates it if both pods are in its cluster, ktsn-federator otherwise. The agents of
// both nodes add its interfaces to the pods, which may already run. TSNLinks are not written by hand.
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

	// spec is the desired state of the link. Only the addresses of nodes and routes can be changed: a pod that gets a different endpoint
	// gets a new link.
	// +kubebuilder:validation:XValidation:rule="self.vni == oldSelf.vni && self.service == oldSelf.service && self.client.uid == oldSelf.client.uid && self.endpoint.uid == oldSelf.endpoint.uid",message="vni, service and pods of a TSNLink cannot be changed; make another one"
	// +required
	Spec TSNLinkSpec `json:"spec"`
	// status is the observed state. The agents of both nodes write it.
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

// TSNLinkSpec is the desired state of a link.
type TSNLinkSpec struct {
	// service is the name of the TSNService, in the link's namespace.
	// +kubebuilder:validation:MaxLength=30
	// +required
	Service string `json:"service"`
	// vni is the link's VXLAN network identifier, 0x800000 or above. Networks have smaller ones.
	// +kubebuilder:validation:Minimum=8388608
	// +kubebuilder:validation:Maximum=16777215
	// +required
	VNI int32 `json:"vni"`
	// mtu of both interfaces, in bytes; 0: the largest that both nodes and the path between them can carry.
	// +optional
	MTU int32 `json:"mtu,omitempty"`
	// encryption of frames between the nodes, as in the service.
	// +kubebuilder:validation:Enum=None;Preferred;Required
	// +optional
	Encryption string `json:"encryption,omitempty"`
	// hop is the position of the link in its chain; 0 is next to the client.
	// +optional
	Hop int32 `json:"hop,omitempty"`
	// client is the end that requested the link.
	// +required
	Client LinkEnd `json:"client"`
	// endpoint is the other end.
	// +required
	Endpoint LinkEnd `json:"endpoint"`
}

// LinkEnd is a pod at an end of a link.
type LinkEnd struct {
	// cluster is the name of the pod's cluster; empty for the cluster of the link.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// namespace of the pod.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace"`
	// pod is the name of the pod.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Pod string `json:"pod"`
	// uid of the pod. The agent checks it.
	// +kubebuilder:validation:MaxLength=64
	// +required
	UID string `json:"uid"`
	// node that the pod runs on.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Node string `json:"node"`
	// nodeAddress is the IPv4 address of the node's tunnels.
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="nodeAddress must be an IPv4 address, such as 192.0.2.1"
	// +required
	NodeAddress string `json:"nodeAddress"`
	// nodeKeys are the node's keys, signed by its cluster, for a link with encryption to another node.
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
	// routes are ranges that this end reaches through the other end's address.
	// +kubebuilder:validation:MaxItems=4096
	// +kubebuilder:validation:items:MaxLength=43
	// +listType=atomic
	// +optional
	Routes []string `json:"routes,omitempty"`
	// forward selects what the kernel of a pod in the middle of a chain forwards.
	// +kubebuilder:validation:items:Enum=IPv4;IPv6
	// +kubebuilder:validation:MaxItems=2
	// +listType=set
	// +optional
	Forward []string `json:"forward,omitempty"`
	// names of the other end in the /etc/hosts of this end.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	// +optional
	Names []string `json:"names,omitempty"`
	// hosts are names of hosts beyond the other end, also for the /etc/hosts of this end.
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

// TSNLinkStatus is the observed state of a link.
type TSNLinkStatus struct {
	// measuredMTU is the size of the largest packet that the link has carried in a probe, in bytes; 0 before the first probe.
	// +optional
	MeasuredMTU int32 `json:"measuredMTU,omitempty"`
	// since is when the link was first up.
	// +optional
	Since *metav1.MicroTime `json:"since,omitempty"`
	// conditions: ClientPlugged and EndpointPlugged, each written by the agent of its node; Up, written by the agent of the client's node;
	// and on links that the operator has not created, Admitted, written by the operator. Agents plug only admitted links.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
