// SPDX-License-Identifier: Apache-2.0

// Package kube has the command lines and configurations of Kubernetes' programs, and a client of the API server that
// applies the system's manifests (manifests/) and waits for the cluster.
//
// The set-up is kubeadm's as far as users of the cluster notice: RBAC and Node authorisation, a certificate for each
// component, the default admission plugins and NodeRestriction, and Pod Security that enforces "baseline" unless a
// namespace says otherwise.
package kube
