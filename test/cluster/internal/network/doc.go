// SPDX-License-Identifier: Apache-2.0

// Package network creates and removes the network namespaces of a cluster and the links between them (package plan has
// a drawing), with the ip command.
//
// Everything is removed by name, however much of it exists. A network namespace takes its interfaces with it.
package network
