// SPDX-License-Identifier: Apache-2.0

// Package cgroups finds, empties and removes the cgroups of a cluster in all hierarchies of this machine, of either
// version, and gives them a share of the real-time budget if the kernel divides it (RT_GROUP_SCHED, cgroup v1).
package cgroups
