// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Encrypted tells whether a network asks for encryption, of whichever kind.
func (s *TSNNetworkSpec) Encrypted() bool {
	return s.Encryption == EncryptionPreferred || s.Encryption == EncryptionRequired
}

// MostClusterKeys is how many keys of clusters a TSNNode takes (spec.clusterKeys), and how many clusters are pinned automatically.
const MostClusterKeys = 256

// Names of what keeps the keys of clusters.
const (
	// ClusterKeySecret : the Secret in the operator's namespace with the key by which the cluster signs its nodes.
	ClusterKeySecret = "kubernetsn-cluster-key"
	// ClusterKeyField : its field with the private key: 32 bytes, the seed of an Ed25519 key.
	ClusterKeyField = "ed25519-seed"
	// ClusterKeySuccessionField : its field with the former public keys, each with its signature of the next one.
	ClusterKeySuccessionField = "succession"
	// ClusterKeyRolledField : its field with the value of RollAnnotation for which the key was replaced last.
	ClusterKeyRolledField = "rolled"
	// RollAnnotation of the Secret: another value than before has the operator replace the cluster's key.
	RollAnnotation = "kubernetsn.io/roll"
	// ClusterKeyPins : the ConfigMap in the operator's namespace with the public keys of other clusters and their parts of networks, by the
	// names of these clusters.
	ClusterKeyPins = "kubernetsn-cluster-keys"
	// KeyAlgorithm : that of nodes' keys.
	KeyAlgorithm = "X25519"
)

// Types of conditions about encryption.
const (
	// ConditionEncryptionOperational of a node says that frames of the network to all of its other nodes are encrypted. Without
	// spec.encryption there is none.
	ConditionEncryptionOperational = "EncryptionOperational"
)

// Reasons of conditions, and of Events, about encryption.
const (
	// ReasonEncryptionUnavailable : the node cannot encrypt, as the sentence says.
	ReasonEncryptionUnavailable = "EncryptionUnavailable"
	// ReasonPeersWithoutKeys : nodes of the network have no keys that can be believed.
	ReasonPeersWithoutKeys = "PeersWithoutKeys"
	// ReasonClusterKeyDiffers : a cluster signs its nodes by another key than the one that was pinned. What was in force stays.
	ReasonClusterKeyDiffers = "ClusterKeyDiffers"
	// ReasonEncryptionBelowMinimum : spec.encryption asks for less than the cluster's minimum, which is in force.
	ReasonEncryptionBelowMinimum = "EncryptionBelowMinimum"
	// ReasonClusterKeyUnknown : no key of a cluster is pinned, and none is pinned automatically; the sentence says why.
	ReasonClusterKeyUnknown = "ClusterKeyUnknown"
	// ReasonClusterPartDiffers : a cluster signs nodes for a part of the network that is not its own. What was in force stays.
	ReasonClusterPartDiffers = "ClusterPartDiffers"
	// ReasonClusterKeysUnavailable : keys of clusters cannot be read or written. What nodes were told stays.
	ReasonClusterKeysUnavailable = "ClusterKeysUnavailable"
	// ReasonKeysWaited : the node's keys have not come back signed yet.
	ReasonKeysWaited = "WaitingForKeys"
)

// NodeKey is the public half of a node's key.
type NodeKey struct {
	// id tells the keys of a node apart.
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
	// notBefore is when the node made the key.
	// +optional
	NotBefore metav1.Time `json:"notBefore,omitzero"`
}

// SenderGenerations are the generations of the keys by which a node encrypts. Receivers take those from the one before to three after.
type SenderGenerations struct {
	// kernel is that of the node's kernel.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Kernel int64 `json:"kernel"`
	// ktsnd is that of its ktsnd.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Ktsnd int64 `json:"ktsnd"`
}

// LinkNodeKeys are the keys of a node at an end of encrypted links, as its cluster has signed them.
type LinkNodeKeys struct {
	// clusterKey is the public key (Ed25519, base64) by which the cluster says it signs. It is believed if it is the one that the reader has
	// pinned.
	// +kubebuilder:validation:MaxLength=44
	// +required
	ClusterKey string `json:"clusterKey"`
	// clusterKeySuccession has former keys of the cluster, each with its signature of the next one (KEY:SIGNATURE in base64, blanks between), the
	// last one first. Who has pinned one of them pins clusterKey instead.
	// +kubebuilder:validation:MaxLength=600
	// +optional
	ClusterKeySuccession string `json:"clusterKeySuccession,omitempty"`
	// keys of the node, of which the first one is in use. One without any has not announced them yet, or cannot encrypt.
	// +kubebuilder:validation:MaxItems=2
	// +listType=map
	// +listMapKey=id
	// +optional
	Keys []NodeKey `json:"keys,omitempty"`
	// sender are the generations of the keys by which the node encrypts.
	// +optional
	Sender *SenderGenerations `json:"sender,omitempty"`
	// cannotEncrypt tells that the node cannot encrypt.
	// +optional
	CannotEncrypt bool `json:"cannotEncrypt,omitempty"`
	// sequence grows with each change of the above. A reader that has accepted one rejects smaller ones.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Sequence int64 `json:"sequence,omitempty"`
	// signature is that of the cluster over the node's name, the address of its tunnels, and all of the above (Ed25519, base64).
	// +kubebuilder:validation:MaxLength=88
	// +required
	Signature string `json:"signature"`
}

// Encrypted tells whether a link asks for encryption, of whichever kind.
func (s *TSNLinkSpec) Encrypted() bool {
	return s.Encryption == EncryptionPreferred || s.Encryption == EncryptionRequired
}

// Admitted tells whether a link has been one that pods of the cluster asked for: the operator has made it, or has said so of it as it is or was.
func (l *TSNLink) Admitted() bool {
	return l.Labels[LinkMakerLabel] == MakerOperator || meta.IsStatusConditionTrue(l.Status.Conditions, ConditionAdmitted)
}

// Encrypted tells whether links of a service ask for encryption, of whichever kind.
func (s *TSNServiceSpec) Encrypted() bool {
	return s.Encryption == EncryptionPreferred || s.Encryption == EncryptionRequired
}

// ClusterKey is the public key by which a cluster signs its nodes.
type ClusterKey struct {
	// cluster is its name at the hub; empty: this one.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	// +required
	Cluster string `json:"cluster"`
	// publicKey has 32 bytes, in base64.
	// +kubebuilder:validation:MaxLength=44
	// +required
	PublicKey string `json:"publicKey"`
	// succession has former keys of this cluster, each with its signature of the next one, as clusterKeySuccession of TSNPeers has. A hub takes it
	// to other clusters.
	// +kubebuilder:validation:MaxLength=600
	// +optional
	Succession string `json:"succession,omitempty"`
	// ipv4 is the part of the network's spec.ipv4 that the other cluster's nodes must lie in. Without it no node of that cluster is accepted.
	// +kubebuilder:validation:MaxLength=18
	// +optional
	IPv4 string `json:"ipv4,omitempty"`
	// ipv6 is the same of the network's spec.ipv6.
	// +kubebuilder:validation:MaxLength=43
	// +optional
	IPv6 string `json:"ipv6,omitempty"`
}
