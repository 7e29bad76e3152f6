// SPDX-License-Identifier: Apache-2.0

// Package agent is the first process of a pod's virtual machine, in the place of Kata's agent. It sets up the machine's interfaces as it
// is told, and runs the pod's processes, each with the root of its container, which it sees by 9p.
//
// Other than Kata's agent, it makes no namespaces and no cgroups: all processes see all others, and root has all capabilities. There are
// no volumes, no standard input and no terminals.
package agent
