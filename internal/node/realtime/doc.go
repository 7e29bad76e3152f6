// SPDX-License-Identifier: Apache-2.0

// Package realtime gives the cgroup of a program, and those above it, a share of the processor's real-time
// budget. A kernel with RT_GROUP_SCHED divides that budget among the cgroups of version 1 and gives a new one
// nothing: SCHED_FIFO is refused there whatever the program's privileges, and no container runtime of Kubernetes
// asks for a share. Other kernels do not divide it, and there is nothing to do. Of cgroups of version 2 only the root has
// a budget on such a kernel: there is nothing to give, and Check says what to do on the node.
//
//	/               950 ms of each second
//	  kubepods      ≥ the sum of what is below
//	    pod…        likewise
//	      4f1c…     the container's
package realtime
