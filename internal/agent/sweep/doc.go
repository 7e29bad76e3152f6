// SPDX-License-Identifier: Apache-2.0

// Package sweep removes what pods left on the node that do not exist any more: volumes and folders, sockets and endpoints
// in ktsnd, interfaces, addresses and records of the network plugin. Kubelet and the runtime do that themselves when a
// pod ends; what is left is from nodes that lost their power, runtimes that were killed, and Multus, which passes GC to
// the cluster's first network only.
//
// A pod has ended when the API server did not have it in two looks with a while between them. Its interface is removed
// only when its network namespace is gone as well: as long as that is there, so may be its processes.
package sweep
