// SPDX-License-Identifier: Apache-2.0

// Package realtime gives the cgroup of a program, and its parents, a share of the processor's real-time budget. A kernel with
// RT_GROUP_SCHED divides that budget among the cgroups of version 1 and gives a new cgroup nothing: it refuses SCHED_FIFO there
// even to privileged programs, and no container runtime of Kubernetes requests a share. Other kernels do not divide the budget. With
// cgroups of version 2 only the root has a budget on such a kernel: there is nothing to give, and Check returns what to do on the node.
//
//	/               950 ms of each second
//	  kubepods      ≥ the sum of its children
//	    pod…        likewise
//	      4f1c…     the container's
package realtime
