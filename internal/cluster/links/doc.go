// SPDX-License-Identifier: Apache-2.0

// Package links decides which pods of a cluster are linked. It does not access a cluster: Plan takes services, pods, nodes and existing
// links, and returns the links to create, change and delete, each service's status, and findings about pods. The same input gives the
// same plan, and a plan that was applied is followed by an empty one.
//
//	labels.go    parses a pod's link labels, also for the webhook
//	model.go     input and result
//	plan.go      the steps of a plan, and services that wait for each other
//	roles.go     clients, endpoints and chain elements of each service
//	conflict.go  address conflicts of services and networks
//	pool.go      allocates VNIs, addresses and interface names
//	pair.go      pairs pods: preference, limits, chains, healing
//	make.go      creates links
//	route.go     routes and names at both ends of the links of a chain
//	status.go    status and findings of a service
package links
