// SPDX-License-Identifier: Apache-2.0

// Package wiretap records when frames arrive from a link, independently of the programs that sent them.
//
// A Tap is an AF_PACKET socket on the receiving end of the link (a tap on the sending end does not see frames sent with
// qdisc_bypass). The kernel copies the head of every incoming UDP datagram into a ring that is large enough for a whole
// run and is read after the run, so that tapping causes no wake-ups during it. The time of a frame is the kernel's own
// receive stamp, taken when the link hands the frame over, before any queue of the receiver.
package wiretap
