// SPDX-License-Identifier: Apache-2.0

// Package scale runs a cluster of many nodes: the API server and etcd of Kubernetes, the operator in a process of its own, and the
// agents of all nodes together in another one. Below an agent stands a node that is only played: ktsnd on a socket, the kernel's
// tunnels in memory, and a kubelet that registers the agent's driver. Rights and policies are those that the chart renders.
//
// `make e2e` runs the short form, which checks what a change of one node costs the others and does not look at the clock.
// `make thousand` runs the long form, which measures, and writes its figures to out/thousand/. Without an API server both are
// skipped, and fail where CI=true or KTSN_REQUIRE=1.
package scale
