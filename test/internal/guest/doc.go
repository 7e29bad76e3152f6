// SPDX-License-Identifier: Apache-2.0

// Package guest runs a command in a virtual machine that is as most nodes are today: Debian's kernel, with cgroups of
// version 2 only. QEMU emulates its processors, so that no KVM is needed. The machine sees this machine's files, read
// only, and has /usr of it, so that programs and versions are Debian's as they are installed here:
//
//	initial file system   modules of 9p ► tmpfs as the root, this machine's files at /host, /usr of these ► the command
//
// Boot is this machine's side. Main is the virtual machine's: its first process (first).
package guest
