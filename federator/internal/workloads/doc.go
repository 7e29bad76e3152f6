// SPDX-License-Identifier: Apache-2.0

// Package workloads places objects on clusters, moves them and removes them, with Karmada's own objects: a workload is
// a PropagationPolicy with the workload's name and the objects that it selects. There is no other state, so that every
// operation can be continued after a failure. Requests act with the caller's rights; the controller that carries out
// moves only changes policies.
package workloads
