// SPDX-License-Identifier: Apache-2.0

// Package clusterreader reads objects of a Kubernetes cluster with the rights of the user, and runs ktsn next to a node's ktsnd. It
// changes nothing. It does not register the types of Kubernetes, because that would take most of ktsn's start-up time.
package clusterreader
