// SPDX-License-Identifier: Apache-2.0

// Package pods says where containers of workloads run. Pods are objects of their own cluster and not of the hub. KuberneTSN's operator in a
// cluster writes into a TSNWorkload where the pods of a workload run, and Karmada brings its status up; so the hub need not reach the
// cluster. Of a cluster without KuberneTSN, Karmada's proxy asks for the pods, with the rights of whoever asks there, if the
// hub reaches the cluster. Of others the hub knows how many pods there are and are ready.
package pods
