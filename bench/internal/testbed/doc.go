// SPDX-License-Identifier: Apache-2.0

// Package testbed defines the environment of experiments with other programs: two nodes with several networks between
// them, and programs at both ends of each. Package netnstestbed implements it with network namespaces, package
// clustertarget with pods.
package testbed
