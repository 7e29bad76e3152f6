// SPDX-License-Identifier: Apache-2.0

// Package sweep removes the remains of pods that do not exist any more: volumes and folders, sockets and endpoints in
// ktsnd, interfaces, addresses and records of the network plugin. kubelet and the runtime normally do this when a pod
// ends; remains come from power failures, killed runtimes, and Multus, which passes GC to the cluster's first network
// only.
//
// A pod has ended if it was missing in two sweeps, and the API server itself, asked just before the removal, does not
// have it either: the agent's cache may be stale. Nothing is removed while the network namespace exists, because
// processes may still run in it.
//
// The package also finds out how long kubelet needs an ending agent for ended pods.
package sweep
