// SPDX-License-Identifier: Apache-2.0

// Package links is the experiment on point-to-point links between pods, in three parts:
//
//	transfers  experiment throughput (TCP, UDP, SCTP, ping) over a link, Flannel's VXLAN and the bare link
//	timed      messages with a transmit time over a link and over an ordinary network of ktsnd
//	many       the cost of plugging many links: time, memory, and processor time while nothing is sent
//
// The files: links (cases and settings), timed and many (a part each), report and figures.
// Threads: one goroutine.
package links
