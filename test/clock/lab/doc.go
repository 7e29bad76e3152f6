// SPDX-License-Identifier: Apache-2.0

// Package lab runs virtual machines with separate clocks on a common network, and measures the true difference of these
// clocks.
//
// The machines are emulated: a guest's processor counter is the host's plus a constant. 10,000 exchanges of counters
// over shared memory bound the constant ([Guest.Exchange]). A reading of a guest's clock at a value of its counter thus
// belongs to a value of the host's counter, which gives the difference between two guests' clocks at one moment, with
// its uncertainty ([Truth]).
package lab
