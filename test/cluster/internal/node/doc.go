// SPDX-License-Identifier: Apache-2.0

// Package node runs the machines of a cluster as runc containers: each has its own processes, mounts, cgroups and host
// name, and the network namespace that package network created. It sees this machine's /usr, read only, and has its own
// files for everything else. tini is its first process and runsvdir (of runit) the second, which restarts services that
// end.
//
// A node runs real containers: its containerd runs in it as on a machine. When its first process is killed, the kernel
// kills all others and drops its mounts; that is how a node is switched off.
package node
