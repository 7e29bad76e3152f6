// SPDX-License-Identifier: Apache-2.0

// Package networks spans TSNNetworks over clusters: it divides a network's ranges among the selected clusters, gives
// each cluster its subnet, and publishes to each cluster the nodes of the others. The only record of the subnets is
// Karmada's ClusterOverridePolicy of the network.
package networks
