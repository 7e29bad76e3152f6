// SPDX-License-Identifier: Apache-2.0

// Package tsnperf knows tsnperf's command lines, its files and the message that it writes into datagrams.
// datapath/perf/ defines them.
package tsnperf
