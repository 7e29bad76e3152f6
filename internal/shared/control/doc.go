// SPDX-License-Identifier: Apache-2.0

// Package control is the Go client of ktsnd's control socket.
//
// The socket is a unix SEQPACKET socket that carries one JSON object a message and one reply to each
// request, in order; docs/internals/control-protocol.md is the contract, and the example files next to it are this
// package's tests. ktsnd rejects requests with unknown fields; the client ignores unknown fields of replies,
// which a newer ktsnd may send.
//
// A Client may be used from several goroutines; their requests take turns.
package control
