// SPDX-License-Identifier: Apache-2.0

// Package iperf3 is how iperf3 (3.12 and later) is called for a measurement of throughput, and what its JSON says. It starts
// nothing itself.
package iperf3
