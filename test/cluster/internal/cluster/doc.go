// SPDX-License-Identifier: Apache-2.0

// Package cluster puts a cluster up and takes it down:
//
//	up    build ► plan saved ► network ► nodes ► control plane ready ► images ► manifests ► ready
//	down  cgroups, and who is in them ► nodes ► network ► files
//
// All names follow from the plan, which is on disk before anything else is made. Down therefore removes
// whatever is there, after a complete start as after one that was killed at any step, and may itself be killed
// and repeated. The folder of the cluster goes last.
//
// The hub of a federation is one of these with a machine alone, and with the WAN to which members are connected:
//
//	up    build ► plan saved ► network ► machine ► control plane ready ► Karmada's manifests ► Karmada ready ► WAN ► ready
//	join  router of the member ► agent's image ► registration ► the hub finds it ready
//
// A member's router is the member's, and goes with it; the WAN goes with the hub.
//
// One program at a time changes a cluster: it holds a lock on the folder, which the kernel releases when the
// program ends in whatever way.
package cluster
