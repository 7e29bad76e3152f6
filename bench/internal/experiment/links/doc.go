// SPDX-License-Identifier: Apache-2.0

// Package links is the experiment on point-to-point links between pods, in three parts:
//
//	transfers  experiment throughput (TCP, UDP, SCTP, ping) over a link beside Flannel's VXLAN and the bare link
//	timed      messages with a transmit time over a link beside an ordinary network of ktsnd
//	many       what plugging many links takes, in time, memory, and processor time while nothing is sent
//
// What each file does: links (cases and settings), timed and many (a part each), memory (what the kernel has), report and figures.
// Threads: one goroutine.
package links
