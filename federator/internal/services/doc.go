// SPDX-License-Identifier: Apache-2.0

// Package services has TSNServices be on clusters, and makes the links that no cluster can make alone. Each cluster gets a part of a service's
// addresses and of the numbers of links, by which its operator links its own pods, hub or not. Of clients that it cannot link, and of pods
// to which others may be linked, it tells by the service's status. From these the federator makes TSNLinks, of the hub's own
// part, and has each be on the clusters of its two ends. Which part is whose stands in Karmada's OverridePolicy of the service,
// and who is linked to whom in the TSNLinks; there is no other state.
package services
