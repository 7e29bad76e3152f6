// SPDX-License-Identifier: Apache-2.0

// Package cni is tsn-cni, the network plugin: it parses the configuration and the request of a container runtime, calls package
// attachment, and prints the result, following the specification of CNI 1.1.
//
// docs/reference/tsn-cni.md describes the configuration and the error codes.
package cni
