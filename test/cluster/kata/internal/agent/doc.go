// SPDX-License-Identifier: Apache-2.0

// Package agent is the first process of a pod's virtual machine, in place of Kata's agent. It sets up the interfaces
// that the runtime requests, and runs the pod's processes, each in the root of its container, which it mounts by 9p.
//
// Unlike Kata's agent, it creates no namespaces and no cgroups: all processes see all others, and root has all
// capabilities. There are no volumes, no standard input and no terminals.
package agent
