// SPDX-License-Identifier: Apache-2.0

// Package workloads puts objects on clusters, moves them and takes them away, by Karmada's own objects: a workload is a PropagationPolicy
// with the workload's name, and the objects that it selects. There is no other state, so that whoever continues after a failure
// finds all there. Requests act with the rights of the caller; the controller that carries a move on changes policies only.
package workloads
