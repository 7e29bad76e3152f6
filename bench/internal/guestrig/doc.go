// SPDX-License-Identifier: Apache-2.0

// Package guestrig runs a virtual machine on each node of a topology for a bench:
//
//	machine a                                         machine b
//	 tap       ktsn-guest, tap, ktsn-relay, ktsnd ──► tap
//	 vhost     ktsn-guest, ktsn-relay-vhost, ktsnd ─► vhost (ktsn-relay-vhost)
//	 released  mqprio and etf, tap, bridge ─────────► tap
//	 gated     taprio and etf, tap, bridge ─────────► tap
//
// Both machines boot once and run until Close. QEMU emulates their processors.
package guestrig
