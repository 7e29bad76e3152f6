// SPDX-License-Identifier: Apache-2.0

// Package hosttime gives a virtual machine the time of its host, with a bound of the error.
//
//	guest                                              host
//	Follower ── Request, over a virtio port ─────────► Serve, at QEMU's socket
//	Interval ◄─ Reply with two readings of CLOCK_TAI ─┘
//	   └► capture.Guest: records of the guest's frames; chronyd: the guest's clock
//
// An exchange bounds how far the host is ahead: the host's first reading is after the request left, its second before the reply
// arrived. Between exchanges the bound grows with the drift of the guest's counter. The bound is valid as long as the assumed drift
// is, however late either side runs.
package hosttime
