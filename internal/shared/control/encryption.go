// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
)

// Encryption is whether messages of a network to other nodes are encrypted.
type Encryption string

// Values of Encryption.
const (
	EncryptionNone Encryption = "none"
	// EncryptionPreferred sends messages in clear to nodes for which ktsnd has no association.
	EncryptionPreferred Encryption = "preferred"
	// EncryptionRequired drops messages that ktsnd cannot encrypt.
	EncryptionRequired Encryption = "required"
)

// NetworkEncryption is the encryption of a network.
type NetworkEncryption struct {
	VNI        uint32     `json:"vni"`
	Encryption Encryption `json:"encryption"`
}

// SetNetworkEncryption replaces the encryption of a network, also for messages that wait.
func (c *Client) SetNetworkEncryption(ctx context.Context, vni uint32, encryption Encryption) error {
	return c.command(ctx, "network-encryption-set", NetworkEncryption{vni, encryption})
}

// NetworkEncryptions lists the networks with encryption, with the same reserve as Endpoints.
func (c *Client) NetworkEncryptions(ctx context.Context) ([]NetworkEncryption, error) {
	return readPages[NetworkEncryption](ctx, c, "network-encryptions")
}

// associationKeyBytes is the length of an AES-128 key and its salt (RFC 4106 section 8.1).
const associationKeyBytes = 20

// AssociationKey is an AES-128 key of 16 bytes and a salt of 4. It is never printed.
type AssociationKey [associationKeyBytes]byte

// String hides the key.
func (AssociationKey) String() string { return "(key)" }

// GoString hides the key.
func (AssociationKey) GoString() string { return "(key)" }

// MarshalJSON writes the hexadecimal digits of the protocol.
func (k AssociationKey) MarshalJSON() ([]byte, error) {
	return json.Marshal(hex.EncodeToString(k[:]))
}

// UnmarshalJSON reads the hexadecimal digits of the protocol.
func (k *AssociationKey) UnmarshalJSON(data []byte) error {
	var digits string
	if err := json.Unmarshal(data, &digits); err != nil {
		return fmt.Errorf("key of an association: %w", err)
	}
	if n, err := hex.Decode(k[:], []byte(digits[:min(len(digits), 2*associationKeyBytes)])); err != nil || n != associationKeyBytes ||
		len(digits) != 2*associationKeyBytes {
		return fmt.Errorf("key of an association is not %d hexadecimal digits", 2*associationKeyBytes)
	}
	return nil
}

// SecurityAssociation is a key that ktsnd may use for frames to one node. Only one ktsnd process uses it.
type SecurityAssociation struct {
	// SPI is 256 or more.
	SPI uint32         `json:"spi"`
	Key AssociationKey `json:"key"`
	// Generation is higher than that of all earlier associations of this node, for any peer.
	Generation uint32 `json:"generation"`
}

// SetSecurityAssociations replaces the associations for frames to a node, in ascending generations; an empty list removes the node.
// ktsnd uses the first one that no ktsnd of this node has used before.
func (c *Client) SetSecurityAssociations(ctx context.Context, peer netip.Addr, associations []SecurityAssociation) error {
	if associations == nil {
		associations = []SecurityAssociation{}
	}
	return c.command(ctx, "security-associations-set", fields{"peer": peer, "associations": associations})
}

// AssociationState is the association that ktsnd uses for frames to a node.
type AssociationState struct {
	Peer       netip.Addr `json:"peer"`
	SPI        uint32     `json:"spi"`
	Generation uint32     `json:"generation"`
	// Sequence is the last sequence number that was used.
	Sequence uint32 `json:"sequence"`
	// AssociationsLeft is the number of associations after this one.
	AssociationsLeft int `json:"associations-left"`
}

// SecurityAssociations lists the nodes that ktsnd has associations for, with the same reserve as Endpoints.
func (c *Client) SecurityAssociations(ctx context.Context) ([]AssociationState, error) {
	return readPages[AssociationState](ctx, c, "security-associations")
}

// UsedGeneration returns the highest generation that any ktsnd of the node has used; only higher ones may be used. It is 0 when none
// has been used.
func (c *Client) UsedGeneration(ctx context.Context) (uint32, error) {
	var reply struct {
		UsedGeneration uint32 `json:"used-generation"`
	}
	err := c.exchange(ctx, "security-associations", fields{"offset": 0, "limit": 1}, "security-associations", &reply)
	return reply.UsedGeneration, err
}
