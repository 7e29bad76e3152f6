// SPDX-License-Identifier: Apache-2.0

// Package iperf3 builds the command lines of iperf3 (3.12 and later) for measurements of throughput, and parses its
// JSON. It starts no program.
package iperf3
