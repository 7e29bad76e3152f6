// SPDX-License-Identifier: Apache-2.0

// Package machine runs the virtual machine of a pod: QEMU, which emulates its processors, with an agent in it. The machine has network
// cards at taps, a file system with the roots of its containers (9p in the place of Kata's virtio-fs, which needs shared memory and a
// server), and two virtio ports: the agent's (Kata's has vsock, which needs the host's kernel), and the one by which ktsn-guest asks for
// the host's time, which no machine of Kata has.
package machine
