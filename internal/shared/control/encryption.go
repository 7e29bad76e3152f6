// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
)

// Encryption says whether messages of a network are encrypted on their way to other nodes.
type Encryption string

// What a network may ask.
const (
	EncryptionNone Encryption = "none"
	// EncryptionPreferred sends in clear to nodes for which ktsnd has no association.
	EncryptionPreferred Encryption = "preferred"
	// EncryptionRequired drops what it cannot encrypt.
	EncryptionRequired Encryption = "required"
)

// NetworkEncryption is a network that asks for encryption.
type NetworkEncryption struct {
	VNI        uint32     `json:"vni"`
	Encryption Encryption `json:"encryption"`
}

type networkEncryptionSetRequest struct {
	requestHeader
	NetworkEncryption
}

// SetNetworkEncryption replaces what a network asks, also of messages that wait.
func (c *Client) SetNetworkEncryption(ctx context.Context, vni uint32, encryption Encryption) error {
	return c.command(ctx, networkEncryptionSetRequest{header("network-encryption-set"), NetworkEncryption{vni, encryption}})
}

type networkEncryptionsReply struct {
	replyHeader
	Total    int                 `json:"total"`
	Networks []NetworkEncryption `json:"network-encryptions"`
}

// NetworkEncryptions lists the networks that ask for encryption, with the same reserve as Endpoints.
func (c *Client) NetworkEncryptions(ctx context.Context) ([]NetworkEncryption, error) {
	return pages(ctx, c, "network-encryptions",
		func(page *networkEncryptionsReply) ([]NetworkEncryption, int) { return page.Networks, page.Total })
}

// associationKeyBytes is an AES-128 key with the salt behind it (RFC 4106 section 8.1).
const associationKeyBytes = 20

// AssociationKey is an AES-128 key of 16 bytes and a salt of 4. It does not print.
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

// SecurityAssociation is a key by which ktsnd may seal frames to one node. Each is used by one ktsnd process only.
type SecurityAssociation struct {
	// SPI is 256 or more.
	SPI uint32         `json:"spi"`
	Key AssociationKey `json:"key"`
	// Generation is above that of all earlier ones of this node, whichever node they were for.
	Generation uint32 `json:"generation"`
}

type securityAssociationsSetRequest struct {
	requestHeader
	Peer         netip.Addr            `json:"peer"`
	Associations []SecurityAssociation `json:"associations"`
}

// SetSecurityAssociations replaces the associations for frames to a node, in ascending generations; none: ktsnd forgets the node.
// ktsnd uses the first that no ktsnd of this node has used before it.
func (c *Client) SetSecurityAssociations(ctx context.Context, peer netip.Addr, associations []SecurityAssociation) error {
	if associations == nil {
		associations = []SecurityAssociation{}
	}
	return c.command(ctx, securityAssociationsSetRequest{header("security-associations-set"), peer, associations})
}

// AssociationState is what ktsnd seals frames to a node by.
type AssociationState struct {
	Peer       netip.Addr `json:"peer"`
	SPI        uint32     `json:"spi"`
	Generation uint32     `json:"generation"`
	// Sequence is the last number given.
	Sequence uint32 `json:"sequence"`
	// AssociationsLeft is how many come after this one.
	AssociationsLeft int `json:"associations-left"`
}

type securityAssociationsReply struct {
	replyHeader
	Total          int                `json:"total"`
	UsedGeneration uint32             `json:"used-generation"`
	Associations   []AssociationState `json:"security-associations"`
}

// SecurityAssociations lists the nodes that ktsnd has associations for, with the same reserve as Endpoints.
func (c *Client) SecurityAssociations(ctx context.Context) ([]AssociationState, error) {
	return pages(ctx, c, "security-associations",
		func(page *securityAssociationsReply) ([]AssociationState, int) { return page.Associations, page.Total })
}

// UsedGeneration is the highest generation that any ktsnd of the node has used; only higher ones may still be. It is 0 where none has
// been used, and of a ktsnd that does not say it.
func (c *Client) UsedGeneration(ctx context.Context) (uint32, error) {
	var page securityAssociationsReply
	err := c.exchange(ctx, listRequest{header("security-associations"), 0, 1}, "security-associations", &page)
	return page.UsedGeneration, err
}
