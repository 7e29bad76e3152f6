// SPDX-License-Identifier: Apache-2.0

// Package guestmachine runs commands in a virtual machine that is as most nodes are today: Debian's kernel, with cgroups of
// version 2 only. QEMU emulates its processors, so that no KVM is needed. The machine sees this machine's files, read
// only, and has /usr of it, so that programs and versions are Debian's as they are installed here:
//
//	initial file system   modules of 9p ► tmpfs as the root, this machine's files at /host, /usr of these ► the command
//
// Machine.Run is this machine's side for one command. Machine.Open is it for many, one after another or at once: an agent in the
// machine does what it is asked over a virtio port (Session). Main is the virtual machine's side: its first process (first).
package guestmachine
