// SPDX-License-Identifier: Apache-2.0

// Package services places TSNServices on clusters, and creates the links that a single cluster cannot create. Each
// cluster gets a part of a service's addresses and link numbers, with which its operator links its own pods, with or
// without the hub. In the service's status it reports clients that it cannot link, and pods that it offers to clients
// of other clusters. From these reports the federator creates TSNLinks, with addresses of the hub's own part, and
// places each on the clusters of its two ends. The parts are recorded in Karmada's OverridePolicy of the service, and
// the links in the TSNLinks; there is no other state.
package services
