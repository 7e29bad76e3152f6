// SPDX-License-Identifier: Apache-2.0

// Package webhook attaches pods with the annotation kubernetsn.io/network to networks: it adds the attachment for Multus, the volume
// with libktsn.so and the pod's socket, and LD_PRELOAD. Pods that cannot work are rejected with a message when they are created.
//
// Pods with link labels (client.kubernetsn.io/SERVICE, endpoint.kubernetsn.io/SERVICE) get the same for their links, and clients get a
// first init container that waits for them (links.go).
//
// The API server calls the webhook only for such pods (matchConditions in the chart), so that no other pod waits for it or is rejected
// when it is unavailable. Such pods are rejected then, because they would run without their network.
//
// mutate.go and its callees change a pod in memory without access to a cluster; only handler.go, device.go and links.go read from one.
package webhook
