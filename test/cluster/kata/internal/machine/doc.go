// SPDX-License-Identifier: Apache-2.0

// Package machine runs the virtual machine of a pod: QEMU, which emulates its processors, with an agent in it. The
// machine has network cards at taps, a file system with its containers' roots (9p in place of Kata's virtio-fs, which
// needs shared memory and a server), and two virtio ports: the agent's (Kata uses vsock, which needs the host's
// kernel), and one by which ktsn-guest asks for the host's time, which Kata does not have.
package machine
