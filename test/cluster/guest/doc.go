// SPDX-License-Identifier: Apache-2.0

// Package guest tests the chart on a node that has only cgroups of version 2: a virtual machine with Debian's kernel,
// containerd and runc (package internal/guest). The machine runs the tests of the folder inside; each of them is a
// subtest here.
package guest
