// SPDX-License-Identifier: Apache-2.0

// Package wiretap sees when frames come off a link, independently of the programs that sent them.
//
// A Tap is an AF_PACKET socket on the receiving end of the link (a tap on the sending end does not see
// frames sent with qdisc_bypass). The kernel copies the head of every incoming UDP datagram into a ring
// that is large enough for a whole run and is read only after it, so that tapping costs no wake-up while
// the run goes on. The time of a frame is the kernel's own receive stamp, taken when the link hands the
// frame over, before any queue of the receiver.
package wiretap
