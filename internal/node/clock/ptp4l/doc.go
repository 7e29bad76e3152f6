// SPDX-License-Identifier: Apache-2.0

// Package ptp4l reads the offset of linuxptp's ptp4l from its grandmaster over the management socket, and is notified of changes of its
// ports' states. It changes nothing but its own subscription.
//
// A goroutine of the client reads the socket (client.go); the caller's goroutine sends requests (poll.go). Messages come from another
// process: they are decoded by github.com/facebook/time within limits of size and rate, and a panic there loses one message
// (messages.go).
package ptp4l
