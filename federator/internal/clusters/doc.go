// SPDX-License-Identifier: Apache-2.0

// Package clusters lists the clusters of the federation, and lets clusters join and leave. Everything is done with the
// caller's rights, and stored in objects of the hub: Karmada's Cluster, which the agent of a cluster in pull mode
// completes, the agent's roles, and a bootstrap token, which expires.
package clusters
