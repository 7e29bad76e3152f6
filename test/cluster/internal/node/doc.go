// SPDX-License-Identifier: Apache-2.0

// Package node makes the machines of a cluster out of runc containers: each has its own processes, mounts,
// cgroups and host name, and the network namespace that package network made. It sees this machine's /usr, read
// only, and files of its own for everything else. tini is its first process and runsvdir (of runit) the second,
// which starts the services again when they end.
//
// A node holds real containers: its containerd runs in it as it would on a machine. When its first process is
// killed, the kernel kills all others in it and drops its mounts; that is how a node is switched off.
package node
