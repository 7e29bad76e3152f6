// SPDX-License-Identifier: Apache-2.0

// Package watch creates Events on the node's pods if a request of theirs is not met: a volume without a network, a
// network without the volume, a reached limit, a program without libktsn.so, or one whose timed messages bypass it.
// Without an Event the owner would only see that timed messages leave through the kernel.
//
// An Event is created when a problem begins, and again when it returns. It also sets the pods' condition kubernetsn.io/attached.
package watch
