// SPDX-License-Identifier: Apache-2.0

// Package sweep removes what pods left on the node that do not exist any more: volumes and folders, sockets and endpoints
// in ktsnd, interfaces, addresses and records of the network plugin. Kubelet and the runtime do that themselves when a
// pod ends; what is left is from nodes that lost their power, runtimes that were killed, and Multus, which passes GC to
// the cluster's first network only.
//
// A pod has ended when it was missing in two looks with a while between them, and the API server itself, asked just before
// something is removed, does not have it either: what the agent remembers may be old. As long as its network namespace
// is there, so may be its processes, and nothing is removed.
//
// It also tells an agent that ends how long kubelet still needs it for pods that have ended.
package sweep
