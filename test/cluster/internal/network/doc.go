// SPDX-License-Identifier: Apache-2.0

// Package network makes and removes the network namespaces of a cluster and the links between them (package
// plan has a drawing), with the ip command.
//
// Everything that is made is removed again by name, however much of it is there. A network namespace takes its
// interfaces with it.
package network
