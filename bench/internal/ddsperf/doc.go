// SPDX-License-Identifier: Apache-2.0

// Package ddsperf builds the command lines and configurations for ddsperf of Cyclone DDS (0.10), and parses its output.
// It starts no program, except openssl.
//
// Each subscriber is a process, and so is the publisher. Throughput: the publisher publishes without limit and each
// subscriber counts. Latency: the publisher sends a ping, each subscriber answers, and the next ping is sent when all
// have answered; ddsperf prints halves of round trips.
//
// ddsperf enables batching and has no option to disable it: fourteen samples of 64 B then share a frame. A message size
// limit that fits only one sample (Config) gives each its own datagram.
package ddsperf
