// SPDX-License-Identifier: Apache-2.0

// Package testbed is what an experiment with other people's programs needs of where it is made: two nodes with several networks
// between them, and programs at both ends of each. Package netnstestbed has it as network namespaces, package clustertarget as pods.
package testbed
