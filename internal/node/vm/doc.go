// SPDX-License-Identifier: Apache-2.0

// Package vm connects virtual machines to a network, on a node without Kubernetes. A machine is an endpoint like a pod: tsn-cni
// attaches an interface for it, in a network namespace in which nothing runs, with the machine's hardware address and IP
// addresses. What the machine sends at a tap of the node's takes the way of what such a pod sends, and what is for the pod goes to
// the tap:
//
//	QEMU ► tap ► (redirected) ► the node's end of the interface, ingress ► relay, ktsnd, or the bridge
//	QEMU ◄ tap ◄ (redirected) ◄ the node's end of the interface, egress  ◄ the bridge
//
// Nothing of the machine's passes the namespace, whose kernel would answer in its name.
package vm
