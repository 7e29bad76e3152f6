// SPDX-License-Identifier: Apache-2.0

// Package doctor checks what a pod, a node or a cluster lacks for timed traffic, and how to fix it. Checks are ordered by dependency, so
// the first fault is usually the one to fix.
//
// doctor.go defines findings; pod.go, node.go and cluster.go check, settings.go checks a node's machine. Checks read the cluster with the
// rights of the user, and report what they may not read.
package doctor
