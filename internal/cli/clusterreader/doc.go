// SPDX-License-Identifier: Apache-2.0

// Package clusterreader reads what a Kubernetes cluster knows, with the rights of whoever asks, and runs ktsn beside a node's
// ktsnd. It changes nothing. It reads without the types of all Kubernetes, whose registration would cost each start of
// ktsn more than all else that it does.
package clusterreader
