// SPDX-License-Identifier: Apache-2.0

// Package pods lists where containers of workloads run. Pods are objects of their own cluster and not of the hub.
// KuberneTSN's operator in a cluster reports the pods of a workload in a TSNWorkload, whose status Karmada collects, so
// the hub does not have to reach the cluster. Clusters without KuberneTSN are asked by Karmada's proxy with the
// caller's rights there, if the hub reaches the cluster. For other clusters the hub only knows how many pods exist and
// are ready.
package pods
