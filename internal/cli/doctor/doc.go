// SPDX-License-Identifier: Apache-2.0

// Package doctor says what a pod, a node or a cluster lacks for timed traffic, and how to mend it. Each look has an order:
// what comes first is what the rest needs, so the first fault that is found is mostly the one to mend.
//
// doctor.go has the form of what is found; pod.go, node.go and whole.go look, settings.go at the machine below a node; what each needs of the cluster it asks for
// itself, by the rights of who runs it, and what it may not see it says.
package doctor
