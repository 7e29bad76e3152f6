// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Encrypted reports whether the network requests encryption.
func (s *TSNNetworkSpec) Encrypted() bool {
	return s.Encryption == EncryptionPreferred || s.Encryption == EncryptionRequired
}

// MostClusterKeys limits the keys of clusters in a TSNNode (spec.clusterKeys) and the number of clusters that are pinned automatically.
const MostClusterKeys = 256

// Other names.
const (
	// ClusterKeySecret : the Secret in the operator's namespace with the key that signs the cluster's nodes.
	ClusterKeySecret = "kubernetsn-cluster-key"
	// ClusterKeyPins : the ConfigMap in the operator's namespace with the public keys of other clusters and their parts of networks, by the
	// names of these clusters.
	ClusterKeyPins = "kubernetsn-cluster-keys"
)

// Annotations and labels.
const (
	// RollAnnotation is an annotation of the Secret ClusterKeySecret. A new value makes the operator replace the cluster's key.
	RollAnnotation = "kubernetsn.io/roll"
)

// Fields of ClusterKeySecret, and the algorithm of nodes' keys.
const (
	// ClusterKeyField has the private key: 32 bytes, the seed of an Ed25519 key.
	ClusterKeyField = "ed25519-seed"
	// ClusterKeySuccessionField has the former public keys, each with its signature of the next one.
	ClusterKeySuccessionField = "succession"
	// ClusterKeyRolledField has the value of RollAnnotation for which the key was replaced last.
	ClusterKeyRolledField = "rolled"
	// KeyAlgorithm is the algorithm of nodes' keys.
	KeyAlgorithm = "X25519"
)

// Types of conditions of a TSNNetwork, and of its nodes.
const (
	// ConditionEncryptionOperational is True for a node if frames of the network to all of its other nodes are encrypted. Networks without
	// spec.encryption do not have it.
	ConditionEncryptionOperational = "EncryptionOperational"
)

// Reasons of conditions, and of Events, about encryption.
const (
	// ReasonEncryptionUnavailable : the node cannot encrypt; the message has the reason.
	ReasonEncryptionUnavailable = "EncryptionUnavailable"
	// ReasonPeersWithoutKeys : nodes of the network have no trusted keys.
	ReasonPeersWithoutKeys = "PeersWithoutKeys"
	// ReasonClusterKeyDiffers : a cluster signs its nodes with a key that is not the pinned one. The previous state stays in force.
	ReasonClusterKeyDiffers = "ClusterKeyDiffers"
	// ReasonEncryptionBelowMinimum : spec.encryption is below the cluster's minimum, which is in force.
	ReasonEncryptionBelowMinimum = "EncryptionBelowMinimum"
	// ReasonClusterKeyUnknown : no key of a cluster is pinned, and none is pinned automatically; the message has the reason.
	ReasonClusterKeyUnknown = "ClusterKeyUnknown"
	// ReasonClusterPartDiffers : a cluster signs nodes for a part of the network that is not its own. The previous state stays in force.
	ReasonClusterPartDiffers = "ClusterPartDiffers"
	// ReasonClusterKeysUnavailable : keys of clusters cannot be read or written. The keys of nodes stay as they are.
	ReasonClusterKeysUnavailable = "ClusterKeysUnavailable"
	// ReasonKeysWaited : the node's keys have not been signed yet.
	ReasonKeysWaited = "WaitingForKeys"
)

// NodeKey is the public half of a node's key.
type NodeKey struct {
	// id identifies the key among the keys of the node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +required
	ID string `json:"id"`
	// algorithm is X25519.
	// +kubebuilder:validation:Enum=X25519
	// +required
	Algorithm string `json:"algorithm"`
	// publicKey has 32 bytes, in base64.
	// +kubebuilder:validation:MaxLength=44
	// +required
	PublicKey string `json:"publicKey"`
	// notBefore is when the node created the key.
	// +optional
	NotBefore metav1.Time `json:"notBefore,omitzero"`
}

// SenderGenerations are the generations of the keys with which a node encrypts. Receivers accept the generations from one before to three after.
type SenderGenerations struct {
	// kernel is the generation of the node's kernel.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Kernel int64 `json:"kernel"`
	// ktsnd is the generation of the node's ktsnd.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Ktsnd int64 `json:"ktsnd"`
}

// LinkNodeKeys are the keys of a node at an end of encrypted links, as its cluster has signed them.
type LinkNodeKeys struct {
	// clusterKey is the public key (Ed25519, base64) with which the cluster signs. It is trusted if the reader has pinned it.
	// +kubebuilder:validation:MaxLength=44
	// +required
	ClusterKey string `json:"clusterKey"`
	// clusterKeySuccession has former keys of the cluster, each with its signature of the next one (KEY:SIGNATURE in base64, blanks between), the
	// latest first. A reader that has pinned one of them pins clusterKey instead.
	// +kubebuilder:validation:MaxLength=600
	// +optional
	ClusterKeySuccession string `json:"clusterKeySuccession,omitempty"`
	// keys of the node; the first one is in use. A node without keys has not announced them yet or cannot encrypt.
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
	// sequence grows with each change of the fields above. A reader that has accepted a sequence rejects smaller ones.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Sequence int64 `json:"sequence,omitempty"`
	// signature of the cluster over the node's name, its tunnel address, and all fields above (Ed25519, base64).
	// +kubebuilder:validation:MaxLength=88
	// +required
	Signature string `json:"signature"`
}

// Encrypted reports whether the link requests encryption.
func (s *TSNLinkSpec) Encrypted() bool {
	return s.Encryption == EncryptionPreferred || s.Encryption == EncryptionRequired
}

// Admitted reports whether pods of the cluster requested the link: the operator has created it, or has admitted it.
func (l *TSNLink) Admitted() bool {
	return l.Labels[LinkMakerLabel] == MakerOperator || meta.IsStatusConditionTrue(l.Status.Conditions, ConditionAdmitted)
}

// Encrypted reports whether links of the service request encryption.
func (s *TSNServiceSpec) Encrypted() bool {
	return s.Encryption == EncryptionPreferred || s.Encryption == EncryptionRequired
}

// ClusterKey is the public key with which a cluster signs its nodes.
type ClusterKey struct {
	// cluster is its name at the hub; empty for this cluster.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	// +required
	Cluster string `json:"cluster"`
	// publicKey has 32 bytes, in base64.
	// +kubebuilder:validation:MaxLength=44
	// +required
	PublicKey string `json:"publicKey"`
	// succession has former keys of this cluster, each with its signature of the next one, as in clusterKeySuccession of TSNPeers. A hub
	// passes it to other clusters.
	// +kubebuilder:validation:MaxLength=600
	// +optional
	Succession string `json:"succession,omitempty"`
	// ipv4 is the part of the network's spec.ipv4 that the other cluster's nodes must lie in. Without it no node of that cluster is accepted.
	// +kubebuilder:validation:MaxLength=18
	// +optional
	IPv4 string `json:"ipv4,omitempty"`
	// ipv6 is the same for the network's spec.ipv6.
	// +kubebuilder:validation:MaxLength=43
	// +optional
	IPv6 string `json:"ipv6,omitempty"`
}
