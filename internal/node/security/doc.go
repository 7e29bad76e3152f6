// SPDX-License-Identifier: Apache-2.0

// Package security makes the keys by which a node encrypts what it sends to other nodes, and decrypts what they send.
//
//	node key (X25519)  of this node          of the other node
//	                        \                 /
//	                         shared secret (ECDH)
//	                               | HKDF-SHA256, by direction, sender and generation
//	                      association: SPI, key and salt of AES-128-GCM (RFC 4106)
//
// A Keyring is the node's keys, of which one is in use, one may be the next, and one the last that others still use; and how many
// generations were handed out. An Outgoing hands out associations for sending, each one once: no key ever encrypts from two counters,
// or one counter twice. What other nodes send follows from the generations that they announce.
//
// The keyring is written to the node's disk before anything of it is used. A witness in a folder that ends with the machine's boot says
// how far that got. Where the two do not fit, as after a boot, or with a file that was lost or restored from a backup, all begins
// with a new key. A machine that is restored as a whole, with its memory, is not noticed.
//
// Threads: one goroutine uses a Keyring and what belongs to it.
package security
