// SPDX-License-Identifier: Apache-2.0

// Package guestmachine runs commands in a virtual machine like most nodes today: Debian's kernel, with cgroups of
// version 2 only. QEMU emulates its processors, so no KVM is needed. The machine sees this machine's files read-only,
// and uses its /usr, so that programs have the versions that are installed here:
//
//	initial file system   modules of 9p ► tmpfs as the root, this machine's files at /host, /usr of these ► the command
//
// Machine.Run runs one command. Machine.Open serves many, in turn or at once: an agent in the machine carries out
// requests over a virtio port (Session). Main is the machine's first process (first).
package guestmachine
