// SPDX-License-Identifier: Apache-2.0

// Package hosttime tells a virtual machine what time its host has, with a bound of the error.
//
//	guest                                              host
//	Follower ── Request, over a virtio port ─────────► Serve, at QEMU's socket
//	Interval ◄─ Reply with two readings of CLOCK_TAI ─┘
//	   └► capture.Guest: records of the guest's frames; chronyd: the guest's clock
//
// An exchange bounds what the host is ahead: its first reading was made after the request had left, its second before the reply
// came. Between exchanges the bound grows with what the guest's counter may drift. The bound is true as long as that holds, however
// late either side runs.
package hosttime
