// SPDX-License-Identifier: Apache-2.0

// Package links decides which pods of a cluster get links to which. It knows no cluster: Plan takes what there is (services, pods,
// nodes, links) and returns what has to become of it (links to make, to change and to delete, each service's status, sentences for pods).
// The same input gives the same plan, and a plan that was carried out is followed by an empty one.
//
//	labels.go    what a pod's labels ask for; the webhook reads them by it, too
//	model.go     what goes in and comes out
//	roles.go     who is a client, an endpoint or an element of which service
//	conflict.go  services and networks that want the same addresses
//	pool.go      lowest free VNIs, addresses and names of interfaces
//	pair.go      who is linked to whom: preference, limits, chains, healing
//	make.go      a new link
//	route.go     routes and names at both ends, which follow from the links of a chain
//	loop.go      services that wait for each other
//	status.go    what is said of a service
package links
