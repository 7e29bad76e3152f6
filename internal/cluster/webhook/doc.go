// SPDX-License-Identifier: Apache-2.0

// Package webhook makes of a pod with the annotation kubernetsn.io/network one that is on the network: it adds the
// attachment for Multus, the volume with libktsn.so and the pod's socket, and LD_PRELOAD. What cannot work is refused
// with a sentence when the pod is made, rather than found out when it runs.
//
// A pod with labels of links (client.kubernetsn.io/SERVICE, endpoint.kubernetsn.io/SERVICE) gets the same for its links, and as a client a first
// init container that waits for them (links.go, waiter.go).
//
// The API server asks for such pods only (matchConditions in the chart), so that no other pod ever waits for the
// webhook or is refused because it does not answer. Such a pod is refused then: it would run without its network.
//
// mutate.go and what it calls change a pod in memory and know nothing of a cluster; handler.go is the only one that asks.
package webhook
