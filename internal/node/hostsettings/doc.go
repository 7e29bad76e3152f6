// SPDX-License-Identifier: Apache-2.0

// Package hostsettings reads from /proc and /sys how a machine is set up for punctual sending. It reports the state of each setting,
// its cost for ktsnd, and how to change it. It changes nothing. docs/guide/tuning.md has the sources of the costs.
//
// Reading needs no privileges. State that a container cannot see is reported as unknown: the table of processes is the container's,
// and kubelet hides /proc/interrupts, so that interrupts are read from /proc/irq and /sys/kernel/irq.
//
// Each file has the settings of one part of the machine. Tests read files that scripts/hostsettings recorded on machines.
package hostsettings
