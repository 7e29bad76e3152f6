// SPDX-License-Identifier: Apache-2.0

// Package cluster starts and removes clusters:
//
//	up    build ► plan saved ► network ► nodes ► control plane ready ► images ► manifests ► ready
//	down  cgroups and their processes ► nodes ► network ► files
//
// All names follow from the plan, which is saved before anything else is created. Down therefore removes everything,
// after a complete start or one that was killed at any step, and may itself be killed and repeated. The cluster's
// folder goes last.
//
// The hub of a federation is a cluster of a single machine without nodes, with the WAN to which members are connected:
//
//	up    build ► plan saved ► network ► machine ► control plane ready ► Karmada's manifests ► Karmada ready ► WAN ► ready
//	join  router of the member ► agent's image ► registration ► the hub reports it ready
//
// A member's router is removed with the member, the WAN with the hub.
//
// One program at a time changes a cluster: it holds a lock on the folder, which the kernel releases when the program
// ends in any way.
package cluster
