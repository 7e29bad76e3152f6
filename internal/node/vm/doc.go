// SPDX-License-Identifier: Apache-2.0

// Package vm connects virtual machines to a network, on a node without Kubernetes. A machine is an endpoint like a pod: tsn-cni
// attaches an interface for it, in an otherwise empty network namespace, with the machine's hardware address and IP addresses.
// Frames from the machine's tap on the node take the path of a pod's frames, and frames for the pod are redirected to the tap:
//
//	QEMU ► tap ► (redirected) ► the node's end of the interface, ingress ► relay, ktsnd, or the bridge
//	QEMU ◄ tap ◄ (redirected) ◄ the node's end of the interface, egress  ◄ the bridge
//
// The machine's frames do not pass the namespace, whose kernel would reply to them.
package vm
