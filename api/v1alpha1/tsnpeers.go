// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// MaxPeers limits the nodes of one TSNPeers.
	MaxPeers = 100
	// MaxNodeAddresses limits the static addresses of a node's pods on a network: ktsnd has at most 64 subnets of a node.
	MaxNodeAddresses = 60
	// MaxPeersAddresses limits the static addresses of all nodes of one TSNPeers, which would be larger than the 1.5 MiB that etcd stores: an
	// address takes up to 430 bytes.
	MaxPeersAddresses = 2000
)

// TSNPeers lists some nodes of a network, as an EndpointSlice lists some endpoints of a Service. All TSNPeers with the network's label
// kubernetsn.io/tsnnetwork together are the network's nodes. The operator writes the TSNPeers of its cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=tsnpeers,singular=tsnpeers,scope=Cluster,categories=kubernetsn
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.network`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.spec.nodes[*].name`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TSNPeers struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec lists the nodes.
	// +required
	Spec TSNPeersSpec `json:"spec"`
}

// TSNPeersList is a list of TSNPeers.
//
// +kubebuilder:object:root=true
type TSNPeersList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TSNPeers `json:"items"`
}

// TSNPeersSpec lists nodes.
type TSNPeersSpec struct {
	// network is the name of the TSNNetwork. It cannot be changed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.network of TSNPeers cannot be changed; make another one"
	// +required
	Network string `json:"network"`
	// cluster is the name of the nodes' cluster; empty for this cluster.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// clusterKey is the public key (Ed25519, base64) with which the nodes' cluster signs them, on a network with spec.encryption. It
	// is trusted if this cluster has pinned it.
	// +kubebuilder:validation:MaxLength=44
	// +optional
	ClusterKey string `json:"clusterKey,omitempty"`
	// clusterKeySuccession has former keys of the cluster, each with its signature of the next one (KEY:SIGNATURE in base64, blanks between), the
	// latest first. A reader that has pinned one of them pins clusterKey instead.
	// +kubebuilder:validation:MaxLength=600
	// +optional
	ClusterKeySuccession string `json:"clusterKeySuccession,omitempty"`
	// nodes of the network.
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	// +optional
	Nodes []PeerNode `json:"nodes,omitempty"`
}

// PeerNode has the tunnel address and the subnets of a node.
type PeerNode struct {
	// name of the node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// address is the IPv4 address of the node's tunnels.
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="address must be an IPv4 address, such as 192.0.2.1"
	// +required
	Address string `json:"address"`
	// ipv4 is the node's subnet of the network's spec.ipv4.
	// +kubebuilder:validation:MaxLength=18
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self).ip().family() == 4",message="ipv4 must be a range of IPv4, such as 10.70.1.0/24"
	// +required
	IPv4 string `json:"ipv4"`
	// ipv6 is the node's subnet of the network's spec.ipv6, if the network has one.
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self == '' || isCIDR(self) && cidr(self).ip().family() == 6",message="ipv6 must be a range of IPv6, such as fd42:0:0:1::/64"
	// +optional
	IPv6 string `json:"ipv6,omitempty"`
	// addresses are the addresses of the network's static ranges that pods of the node have. A TSNPeers has at most 2000 of them.
	// +kubebuilder:validation:MaxItems=60
	// +listType=atomic
	// +optional
	Addresses []PodAddress `json:"addresses,omitempty"`
	// mtu is the largest MTU that pods' interfaces of the network can have on the node, in bytes; 0 if unknown.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	MTU int32 `json:"mtu,omitempty"`
	// keys of the node on a network with spec.encryption; the first one is in use. A node without keys has not announced them yet or
	// cannot encrypt.
	// +kubebuilder:validation:MaxItems=2
	// +listType=map
	// +listMapKey=id
	// +optional
	Keys []NodeKey `json:"keys,omitempty"`
	// sender has the generations of the keys with which the node encrypts.
	// +optional
	Sender *SenderGenerations `json:"sender,omitempty"`
	// cannotEncrypt is set if the node cannot encrypt.
	// +optional
	CannotEncrypt bool `json:"cannotEncrypt,omitempty"`
	// clusterIPv4 is the share of the network's spec.ipv4 that the node's cluster has (its spec.ipv4.part), on a network with
	// spec.encryption.
	// +kubebuilder:validation:MaxLength=18
	// +optional
	ClusterIPv4 string `json:"clusterIPv4,omitempty"`
	// clusterIPv6 is the same for the network's spec.ipv6.
	// +kubebuilder:validation:MaxLength=43
	// +optional
	ClusterIPv6 string `json:"clusterIPv6,omitempty"`
	// sequence grows with each change of the signed fields. A reader that has accepted a sequence rejects smaller ones.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Sequence int64 `json:"sequence,omitempty"`
	// signature of the node's cluster over the network's name and all fields above except mtu and the pods of addresses (Ed25519, base64).
	// +kubebuilder:validation:MaxLength=88
	// +optional
	Signature string `json:"signature,omitempty"`
}

// PodAddress is an address of a network's static ranges.
type PodAddress struct {
	// address of the pod.
	// +kubebuilder:validation:MaxLength=39
	// +required
	Address string `json:"address"`
	// pod is the namespace and the name of the pod, such as line/plc-0.
	// +kubebuilder:validation:MaxLength=317
	// +required
	Pod string `json:"pod"`
	// uid of the pod: a pod that is deleted and created again under its name is another one.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=36
	// +required
	UID string `json:"uid"`
}
