// SPDX-License-Identifier: Apache-2.0

// Package clusters has clusters join the federation and leave it, and says which there are. All is done with the rights of whoever asks,
// and kept in objects of the hub: Karmada's Cluster, which the agent of a cluster in pull mode completes, the agent's roles, and a
// bootstrap token, which ends by itself.
package clusters
