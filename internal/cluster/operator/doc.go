// SPDX-License-Identifier: Apache-2.0

// Package operator does for a cluster what one TSNNetwork asks for: it gives nodes their parts of the network's
// addresses, makes the attachments by which Multus knows the network, chooses the base time of schedules, labels the
// nodes on which there are pods, and says in the network's status what has become of it all.
//
// Everything is level-based: what there is, is compared with what there shall be, whatever has happened. What must
// outlast the operator stands in the network's status, and nowhere else.
package operator
