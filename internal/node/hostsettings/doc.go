// SPDX-License-Identifier: Apache-2.0

// Package hostsettings reads from /proc and /sys how a machine is set up for punctual sending, and says of each setting what
// is there, what it costs ktsnd, and how to change it. It changes nothing. docs/host-settings.md has the sources of the costs.
//
// A reader needs no privilege. What cannot be seen from a container is said to be unknown: the table of processes is the
// container's own there, and kubelet hides /proc/interrupts, so that interrupts are read from /proc/irq and /sys/kernel/irq.
//
// Each file has the settings of one part of the machine. Tests read what scripts/hostsettings recorded of machines.
package hostsettings
