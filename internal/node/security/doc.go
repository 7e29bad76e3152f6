// SPDX-License-Identifier: Apache-2.0

// Package security creates the keys with which a node encrypts packets to other nodes and decrypts packets from them.
//
//	node key (X25519)  of this node          of the other node
//	                        \                 /
//	                         shared secret (ECDH)
//	                               | HKDF-SHA256, by direction, sender and generation
//	                      association: SPI, key and salt of AES-128-GCM (RFC 4106)
//
// A Keyring has the node's keys: the current one, possibly the next one, or the previous one that others still use. It also counts
// the generations that were handed out. An Outgoing hands out associations for sending, each only once, so that no key is used with
// two packet counters or with the same counter value twice. Associations for receiving follow from the generations that other nodes
// announce.
//
// The keyring is written to the node's disk before anything of it is used. A witness in a folder that does not survive a reboot has
// the last written revision. If the two do not match, as after a reboot or when the file was lost or restored from a backup, the node
// starts with a new key. A machine that is restored as a whole, with its memory, is not detected.
//
// Threads: a Keyring and its Outgoings are used by one goroutine.
package security
