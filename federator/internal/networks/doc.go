// SPDX-License-Identifier: Apache-2.0

// Package networks stretches TSNNetworks over clusters: it divides a network's ranges among the clusters that shall be on it, gives each
// its part, and tells each where the nodes of the others are. Which part is whose stands in Karmada's ClusterOverridePolicy of the
// network, and nowhere else.
package networks
