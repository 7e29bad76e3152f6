// SPDX-License-Identifier: Apache-2.0

// Package limits sets the limits of the cluster's TSNNetworks (spec.limits) in the node's ktsnd: for all networks, so
// that they apply to a pod from its start. Limits may change while pods run.
//
// The agent owns the limits: manually set limits of other networks are removed.
package limits
