// SPDX-License-Identifier: Apache-2.0

// Package operator reconciles TSNNetworks, TSNServices and TSNWorkloads: it gives nodes their subnets of a network, creates the
// attachments by which Multus knows the network, chooses the base time of schedules, labels the nodes that need ktsnd and its agent,
// pairs the pods of services, and writes the status of all of them.
//
// Reconciliation is level-based: each run compares the cluster with the spec, whatever event caused it. Only the leader writes. State that
// must survive a restart of the operator is kept in API objects: subnets of nodes in the spec of TSNNodes, VNIs and addresses of links in
// TSNLinks and the ConfigMap kubernetsn-released-links, the cluster's key and the certificate in Secrets, pinned keys of other clusters in
// a ConfigMap, the rest in the status of TSNNetworks, TSNServices and TSNWorkloads.
//
// Controllers, by the object that they write:
//
//	networks     status of TSNNetworks; membership, reports, status, clocks, span and clusterranges compute its parts
//	nodestates   spec of TSNNodes; subnets allocates, nodeset has the nodes and their tunnel addresses
//	peers        TSNPeers; addresses has the static addresses of pods
//	claims       status of IPAMClaims, where the cluster has them
//	nodes        labels of the nodes that need ktsnd and its agent
//	clocklabels  labels of nodes whose clock is not good enough for a network
//	attachments  NetworkAttachmentDefinitions
//	links        TSNLinks; linkinput reads, linkwrite writes, linkstatus reports to TSNServices, linkkeys has keys of encrypted links
//	names        EndpointSlices of Services with names on networks
//	workloads    status of TSNWorkloads, for a hub
//
// Shared by the controllers (shared):
//
//	agents       whether the report of a node still holds, by the readiness of its agent's pod
//	pods         counts of pods on networks
//	keys         the cluster's signing key
//	pins         keys of other clusters
//	announce     sequence numbers of signed statements
//
// Program: options, manager (start and health), setup (types, indices, cache), remove (before an uninstallation).
package operator
