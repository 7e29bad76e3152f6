// SPDX-License-Identifier: Apache-2.0

// Package ping is how the ping of iputils is called for a measurement of latency, and what it prints. It starts nothing
// itself.
package ping
