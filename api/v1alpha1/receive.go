// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Receive selects the path of datagrams from other nodes to the pods of a network. If a node's kernel does not support it, the kernel's
// path is used. Changes apply to pods that are created afterwards.
type Receive struct {
	// path of datagrams over IPv4 from the uplink to the pod's interface. Bridge: the kernel's tunnel device and bridge. Redirect: a BPF
	// program at the uplink redirects them, bypassing both.
	// +kubebuilder:validation:Enum=Bridge;Redirect
	// +kubebuilder:default=Bridge
	// +optional
	Path string `json:"path,omitempty"`
	// rings allows receive rings: memory from which libktsn.so reads datagrams. Refused: all datagrams go through the kernel's sockets.
	// Allowed: pods with the annotation kubernetsn.io/receive have rings; packet filters of the node do not see these datagrams, and a
	// pod with packet filters of its own has no rings.
	// +kubebuilder:validation:Enum=Refused;Allowed
	// +kubebuilder:default=Refused
	// +optional
	Rings string `json:"rings,omitempty"`
}
