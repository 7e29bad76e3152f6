// SPDX-License-Identifier: Apache-2.0

// Package clock proves what is said of nodes' clocks with clocks that really differ: those of virtual machines on a common
// network, kept by ktsn-ptp and watched by `ktsn node clock`. The package lab knows the true error. docs/clocks.md has the method,
// and `make clocks` writes a table of figures.
package clock
