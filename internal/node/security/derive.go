// SPDX-License-Identifier: Apache-2.0

package security

import (
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Sender is a program that encrypts. Each sender has its own packet counter.
type Sender byte

// Senders of a node.
const (
	Kernel Sender = 1
	Ktsnd  Sender = 2
)

// KeyBytes is the length of an AES-128 key with the 4 bytes of the salt (RFC 4106).
const KeyBytes = 16 + 4

// minSPI is the first SPI that is not reserved (RFC 4303).
const minSPI = 256

// salt is the salt of HKDF. A change of the derivation needs a new one.
const salt = "kubernetsn esp rfc4106 aes128 v1"

// Association is the key for one direction and one generation of a sender.
type Association struct {
	SPI        uint32
	Key        [KeyBytes]byte
	Generation uint32
}

// Public is the public half of a node's X25519 key.
type Public [32]byte

// ParsePublic parses a public key in base64.
func ParsePublic(text string) (Public, error) {
	var public Public
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != len(public) {
		return public, fmt.Errorf("%q is no public key of a node, which has %d bytes in base64", text, len(public))
	}
	copy(public[:], raw)
	return public, nil
}

// String returns the key in base64, as ParsePublic parses it.
func (p Public) String() string { return base64.StdEncoding.EncodeToString(p[:]) }

// End is one end of an association: the address and public key of a node.
type End struct {
	Address netip.Addr
	Key     Public
}

// secret is the secret that the owners of two keys share.
type secret []byte

func newSecret(ownPrivateKey *ecdh.PrivateKey, other Public) (secret, error) {
	public, err := ecdh.X25519().NewPublicKey(other[:])
	if err != nil {
		return nil, fmt.Errorf("read a node's public key: %w", err)
	}
	shared, err := ownPrivateKey.ECDH(public)
	if err != nil {
		return nil, fmt.Errorf("use a node's public key: %w", err)
	}
	return hkdf.Extract(sha256.New, shared, []byte(salt))
}

// derive returns the association with which one end sends to the other.
func (s secret) derive(from, to End, sender Sender, generation uint32) (Association, error) {
	var info []byte
	for _, end := range []End{from, to} {
		address := end.Address.As16()
		info = append(append(info, address[:]...), end.Key[:]...)
	}
	info = binary.BigEndian.AppendUint32(append(info, byte(sender)), generation)
	association := Association{Generation: generation}
	raw, err := hkdf.Expand(sha256.New, s, string(info), KeyBytes+4)
	if err != nil {
		return association, fmt.Errorf("derive a key: %w", err)
	}
	copy(association.Key[:], raw)
	association.SPI = minSPI + uint32(uint64(binary.BigEndian.Uint32(raw[KeyBytes:]))*(1<<32-minSPI)>>32)
	return association, nil
}
