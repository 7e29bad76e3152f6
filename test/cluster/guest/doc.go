// SPDX-License-Identifier: Apache-2.0

// Package guest tests what a node is to the chart that has cgroups of version 2 only: in a virtual machine with Debian's
// kernel, containerd and runc (package internal/guest). The machine runs the tests of the folder inside; each of these
// is a subtest here.
package guest
