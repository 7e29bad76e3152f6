// SPDX-License-Identifier: Apache-2.0

// Package ptp4l asks linuxptp's ptp4l, over its management socket, how far its clock is from the grandmaster's, and hears of changes of
// its ports' states. It changes nothing but its own subscription.
//
// One goroutine reads the socket (client.go); the caller's asks (poll.go). What is read was written by another process: it is decoded
// by github.com/facebook/time within bounds of size and rate, and a panic there costs one message (messages.go).
package ptp4l
