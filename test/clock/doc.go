// SPDX-License-Identifier: Apache-2.0

// Package clock tests the reported clock errors of nodes with clocks that really differ: those of virtual machines on a
// common network, synchronised by ktsn-ptp and monitored by `ktsn node clock`. Package lab knows the true error.
// docs/internals/clock-bound.md has the method, and `make clocks` writes a table of figures.
package clock
