// SPDX-License-Identifier: Apache-2.0

// Package control is the Go client of ktsnd's control socket.
//
// The socket is a unix SEQPACKET socket that carries one JSON object a message and one reply to each
// request, in order; docs/control-protocol.md is the contract, and the example files beside it are this
// package's tests. Both directions are strict: a reply with a field that this client does not know is an
// error, because guessing what a daemon of another version meant is worse than saying so.
//
// A Client may be used from several goroutines; their requests take turns.
package control
