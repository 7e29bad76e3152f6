// SPDX-License-Identifier: Apache-2.0

// Package tsnperf knows tsnperf from outside: its command lines, the files it writes and the message it puts
// into a datagram. datapath/perf/ is where each of them is defined.
package tsnperf
