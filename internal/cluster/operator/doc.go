// SPDX-License-Identifier: Apache-2.0

// Package operator reconciles TSNNetworks, TSNServices and TSNWorkloads: it gives nodes their subnets of a network, creates the
// attachments by which Multus knows the network, chooses the base time of schedules, labels the nodes that need ktsnd and its agent,
// pairs the pods of services, and writes the status of all of them.
//
// Reconciliation is level-based: each run compares the cluster with the spec, whatever event caused it. State that must survive a
// restart of the operator is kept in the status of API objects only.
package operator
