// SPDX-License-Identifier: Apache-2.0

// Package kube says how the programs of Kubernetes are called and configured here, and speaks to the API server
// once it runs: it applies what a cluster needs from the beginning (manifests/), and waits for it.
//
// The set-up is kubeadm's as far as it matters to those who use the cluster: RBAC and Node authorisation, a
// certificate for each component, the admission plugins that are on by default and NodeRestriction, and Pod
// Security that enforces "baseline" where a namespace does not say otherwise.
package kube
