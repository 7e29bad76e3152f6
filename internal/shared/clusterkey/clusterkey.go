// SPDX-License-Identifier: Apache-2.0

// Package clusterkey implements the key with which a cluster signs the addresses and keys of its nodes. A hub, which carries these
// statements between clusters, can withhold but not forge them.
package clusterkey

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// purpose is part of the signed text, so that a signature cannot be used for anything else.
const purpose = "kubernetsn peer node v1\x00"

// Private is the key of a cluster.
type Private struct {
	key ed25519.PrivateKey
	// Succession has the former keys, as Succeed writes it; "" for none.
	Succession string
}

// New creates a key.
func New() (*Private, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("create the cluster's key: %w", err)
	}
	return &Private{key: key}, nil
}

// FromSeed returns the key of a seed.
func FromSeed(seed []byte) (*Private, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("the cluster's key has %d bytes, and the seed of an Ed25519 key has %d", len(seed), ed25519.SeedSize)
	}
	return &Private{key: ed25519.NewKeyFromSeed(seed)}, nil
}

// Seed returns the seed, the stored form of the key.
func (p *Private) Seed() []byte { return p.key.Seed() }

// Public returns the public half.
func (p *Private) Public() Public {
	var public Public
	copy(public[:], p.key.Public().(ed25519.PublicKey))
	return public
}

// Sign signs a node of a network.
func (p *Private) Sign(network string, node *v1alpha1.PeerNode) {
	node.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(p.key, statement(network, node)))
}

// LinkNode returns the signed statement about a node at an end of encrypted links; address is its tunnel address.
func LinkNode(name, address string, keys *v1alpha1.LinkNodeKeys) *v1alpha1.PeerNode {
	node := &v1alpha1.PeerNode{Name: name, Address: address}
	if keys != nil {
		node.Keys, node.Sender, node.CannotEncrypt = keys.Keys, keys.Sender, keys.CannotEncrypt
		node.Sequence, node.Signature = keys.Sequence, keys.Signature
	}
	return node
}

// NodeKeys converts a signed statement about a node to its form in links.
func (p *Private) NodeKeys(node *v1alpha1.PeerNode) *v1alpha1.LinkNodeKeys {
	return &v1alpha1.LinkNodeKeys{
		ClusterKey: p.Public().String(), ClusterKeySuccession: p.Succession, Keys: node.Keys, Sender: node.Sender, CannotEncrypt: node.CannotEncrypt,
		Sequence: node.Sequence, Signature: node.Signature,
	}
}

// SignLinkNode signs the keys of a node at an end of encrypted links.
func (p *Private) SignLinkNode(name, address string, keys *v1alpha1.LinkNodeKeys) {
	node := LinkNode(name, address, keys)
	p.Sign(v1alpha1.LinkNetwork, node)
	*keys = *p.NodeKeys(node)
}

// Public is the public half of a cluster's key.
type Public [ed25519.PublicKeySize]byte

// ErrSignature is returned if a node is not signed with the key.
var ErrSignature = errors.New("it is not signed by the key of its cluster")

// Parse parses a public key in base64.
func Parse(text string) (Public, error) {
	var public Public
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(raw) != len(public) {
		return public, fmt.Errorf("%q is not a public key of a cluster: give the %d bytes of an Ed25519 key in base64", text, len(public))
	}
	copy(public[:], raw)
	return public, nil
}

// String returns the key in the form that Parse reads.
func (p Public) String() string { return base64.StdEncoding.EncodeToString(p[:]) }

// Fingerprint returns a short hash of the key that users can compare.
func (p Public) Fingerprint() string {
	sum := sha256.Sum256(p[:])
	return "SHA256:" + hex.EncodeToString(sum[:16])
}

// Verify returns an error if the cluster has not signed the node of a network with these values.
func (p Public) Verify(network string, node *v1alpha1.PeerNode) error {
	signature, err := base64.StdEncoding.DecodeString(node.Signature)
	if err != nil || !ed25519.Verify(p[:], statement(network, node), signature) {
		return ErrSignature
	}
	return nil
}

// statement returns the signed text. The order of its fields is fixed by the type, so that it is unique.
func statement(network string, node *v1alpha1.PeerNode) []byte {
	type key struct{ ID, Algorithm, PublicKey string }
	reported := struct {
		Network, Name, Address, IPv4, IPv6 string
		ClusterIPv4, ClusterIPv6           string
		Keys                               []key
		Kernel, Ktsnd, Sequence            int64
		CannotEncrypt                      bool
		Addresses                          []string `json:",omitempty"` // nodes of earlier releases do not verify a statement with some
	}{
		Network: network, Name: node.Name, Address: node.Address, IPv4: node.IPv4, IPv6: node.IPv6, ClusterIPv4: node.ClusterIPv4,
		ClusterIPv6: node.ClusterIPv6, Sequence: node.Sequence, CannotEncrypt: node.CannotEncrypt,
	}
	for _, k := range node.Keys {
		reported.Keys = append(reported.Keys, key{k.ID, k.Algorithm, k.PublicKey})
	}
	for _, held := range node.Addresses {
		reported.Addresses = append(reported.Addresses, held.Address)
	}
	if node.Sender != nil {
		reported.Kernel, reported.Ktsnd = node.Sender.Kernel, node.Sender.Ktsnd
	}
	text, err := json.Marshal(reported)
	if err != nil {
		panic(err) // cannot fail for strings and numbers
	}
	return append([]byte(purpose), text...)
}

// Differs returns the message for a cluster that signs with another key than the pinned one. claimed is in base64 and may be invalid.
func Differs(pinned Public, claimed string) string {
	other := "an invalid key"
	if key, err := Parse(claimed); err == nil {
		other = key.Fingerprint()
	}
	return fmt.Sprintf("its cluster signs by %s, and %s is pinned; if the cluster was set up again, remove the old key from ConfigMap %s, else somebody "+
		"impersonates it", other, pinned.Fingerprint(), v1alpha1.ClusterKeyPins)
}
