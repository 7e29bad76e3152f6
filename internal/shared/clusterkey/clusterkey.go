// SPDX-License-Identifier: Apache-2.0

// Package clusterkey is the key by which a cluster signs where its nodes are and what their keys are: who carries that from one cluster
// to another, as a hub does, can withhold it, and cannot make it up.
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

// purpose is part of what is signed, so that a signature is of use for nothing else.
const purpose = "kubernetsn peer node v1\x00"

// Private is the key of a cluster.
type Private struct {
	key ed25519.PrivateKey
	// Succession has the former keys, as Succeed writes it; "" for none.
	Succession string
}

// New makes a key.
func New() (*Private, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("make the cluster's key: %w", err)
	}
	return &Private{key: key}, nil
}

// FromSeed reads a key that Seed wrote.
func FromSeed(seed []byte) (*Private, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("the cluster's key has %d bytes, and the seed of an Ed25519 key has %d", len(seed), ed25519.SeedSize)
	}
	return &Private{key: ed25519.NewKeyFromSeed(seed)}, nil
}

// Seed is the key as it is kept.
func (p *Private) Seed() []byte { return p.key.Seed() }

// Public is the public half.
func (p *Private) Public() Public {
	var public Public
	copy(public[:], p.key.Public().(ed25519.PublicKey))
	return public
}

// Sign signs a node of a network.
func (p *Private) Sign(network string, node *v1alpha1.PeerNode) {
	node.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(p.key, statement(network, node)))
}

// LinkNode is what is signed of a node at an end of encrypted links, whose tunnels end at an address.
func LinkNode(name, address string, keys *v1alpha1.LinkNodeKeys) *v1alpha1.PeerNode {
	node := &v1alpha1.PeerNode{Name: name, Address: address}
	if keys != nil {
		node.Keys, node.Sender, node.CannotEncrypt = keys.Keys, keys.Sender, keys.CannotEncrypt
		node.Sequence, node.Signature = keys.Sequence, keys.Signature
	}
	return node
}

// NodeKeys is the form that links have of what a cluster has signed of a node.
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

// ErrSignature says that a node was not signed by the key.
var ErrSignature = errors.New("it is not signed by the key of its cluster")

// Parse reads a public key in base64.
func Parse(text string) (Public, error) {
	var public Public
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(raw) != len(public) {
		return public, fmt.Errorf("%q is no public key of a cluster: give the %d bytes of an Ed25519 key in base64", text, len(public))
	}
	copy(public[:], raw)
	return public, nil
}

// String is the key as Parse reads it.
func (p Public) String() string { return base64.StdEncoding.EncodeToString(p[:]) }

// Fingerprint is what people compare.
func (p Public) Fingerprint() string {
	sum := sha256.Sum256(p[:])
	return "SHA256:" + hex.EncodeToString(sum[:16])
}

// Verify tells whether the cluster has signed a node of a network as it is.
func (p Public) Verify(network string, node *v1alpha1.PeerNode) error {
	signature, err := base64.StdEncoding.DecodeString(node.Signature)
	if err != nil || !ed25519.Verify(p[:], statement(network, node), signature) {
		return ErrSignature
	}
	return nil
}

// statement is what is signed. Its fields are in the order of the type, so that each has one form only.
func statement(network string, node *v1alpha1.PeerNode) []byte {
	type key struct{ ID, Algorithm, PublicKey string }
	reported := struct {
		Network, Name, Address, IPv4, IPv6 string
		ClusterIPv4, ClusterIPv6           string
		Keys                               []key
		Kernel, Ktsnd, Sequence            int64
		CannotEncrypt                      bool
	}{
		Network: network, Name: node.Name, Address: node.Address, IPv4: node.IPv4, IPv6: node.IPv6, ClusterIPv4: node.ClusterIPv4,
		ClusterIPv6: node.ClusterIPv6, Sequence: node.Sequence, CannotEncrypt: node.CannotEncrypt,
	}
	for _, k := range node.Keys {
		reported.Keys = append(reported.Keys, key{k.ID, k.Algorithm, k.PublicKey})
	}
	if node.Sender != nil {
		reported.Kernel, reported.Ktsnd = node.Sender.Kernel, node.Sender.Ktsnd
	}
	text, err := json.Marshal(reported)
	if err != nil {
		panic(err) // texts and numbers can be written
	}
	return append([]byte(purpose), text...)
}

// Differs says that a cluster signs by another key than the one that is pinned; says is in base64, and may be none.
func Differs(pinned Public, says string) string {
	other := "something that is no key"
	if key, err := Parse(says); err == nil {
		other = key.Fingerprint()
	}
	return fmt.Sprintf("its cluster signs by %s, and %s is pinned; if the cluster was set up anew, remove the old key from ConfigMap %s, else somebody "+
		"claims to be it", other, pinned.Fingerprint(), v1alpha1.ClusterKeyPins)
}
