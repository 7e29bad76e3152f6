// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Receive is how datagrams of other nodes reach the pods of a network. Where a node's kernel cannot, they take the kernel's path.
// It counts for pods that are made afterwards.
type Receive struct {
	// path is how datagrams over IPv4 come from the uplink to the pod's interface. Bridge: the kernel's tunnel device and bridge.
	// Redirect: past both, by a program at the uplink.
	// +kubebuilder:validation:Enum=Bridge;Redirect
	// +kubebuilder:default=Bridge
	// +optional
	Path string `json:"path,omitempty"`
	// rings says whether pods with the annotation kubernetsn.io/receive have datagrams for their sockets come into memory that
	// libktsn.so reads. Refused: the kernel serves all sockets. Allowed: such pods have rings; packet filters of the node do not see
	// these datagrams, and a pod with packet filters of its own has none.
	// +kubebuilder:validation:Enum=Refused;Allowed
	// +kubebuilder:default=Refused
	// +optional
	Rings string `json:"rings,omitempty"`
}
