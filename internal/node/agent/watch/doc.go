// SPDX-License-Identifier: Apache-2.0

// Package watch looks at the node's pods and says, in Events on them, when something that they asked for does not hold:
// a volume without a network, a network without the volume, a limit that was reached, a program that libktsn.so cannot be
// in, one whose timed messages pass it by. Each of these would otherwise look to its owner as if timed messages simply went out by the kernel.
//
// An Event is made when something begins, and again when it begins anew.
package watch
