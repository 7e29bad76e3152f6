// SPDX-License-Identifier: Apache-2.0

// Package limits gives the node's ktsnd the limits that the cluster's TSNNetworks have for their pods (spec.limits). They
// are given for all networks, whether a pod of them is here or not, so that they count from a pod's first moment; and they
// change while pods run.
//
// Which networks have limits is the agent's to decide: those that somebody gave by hand are taken away.
package limits
