// SPDX-License-Identifier: Apache-2.0

// Package clock says how far the node's CLOCK_TAI may be from true time, by what those say who keep it (ptp4l, phc2sys,
// chronyd) and what the kernel says. It sets no clock.
//
//	ptp4l, chronyd, kernel, clocks of network cards ► observations ► Estimate ► Verdict, for each Need
package clock
