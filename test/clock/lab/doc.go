// SPDX-License-Identifier: Apache-2.0

// Package lab runs virtual machines with clocks of their own on a common network, and knows the true difference of these clocks.
//
// The machines are emulated: a guest's processor counter is the host's plus a constant. 10,000 exchanges of counters over shared
// memory bound the constant ([Guest.Exchange]). What a guest's clock says at a value of its counter is then known at a value of the
// host's counter, and so is the difference between two guests' clocks at one moment, within an uncertainty that is stated
// ([Truth]).
package lab
