// SPDX-License-Identifier: Apache-2.0

// Package ptp keeps a node's clock by linuxptp: it renders the configuration of ptp4l, runs ptp4l, and phc2sys where the network
// card has a clock of its own, ends both together, and gives the kernel the offset of TAI where neither of them does.
//
// It does not start anything again by itself: whoever started it sees by its end, and by the sentence, that something is wrong.
package ptp
