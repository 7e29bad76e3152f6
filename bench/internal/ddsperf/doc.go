// SPDX-License-Identifier: Apache-2.0

// Package ddsperf is how ddsperf of Cyclone DDS (0.10) is called for a measurement, how Cyclone DDS is configured for it, and
// what ddsperf prints. It starts nothing itself.
//
// A subscriber is one process, and so is the publisher. Throughput: the publisher publishes without limit and each subscriber
// counts. Latency: the publisher sends a ping, each subscriber answers, and the next ping leaves when all have; the times that
// ddsperf prints are halves of round trips.
//
// ddsperf switches batching on, and has no option against it: samples of 64 B then leave fourteen to a frame. A limit of
// messages that only one sample fits into (Config) gives each a datagram of its own.
package ddsperf
