// SPDX-License-Identifier: Apache-2.0

// Package agent assembles the agent of a node. Each subpackage does one task and declares the interfaces that it needs.
// docs/internals/pod-and-link.md shows them at work:
//
//	csi          pods' volumes: a folder with libktsn.so and the pod's socket
//	daemon       connections to ktsnd; restores pods and peers in a restarted ktsnd
//	devices      repairs bridges, tunnels and ports that other programs change
//	peers        peers (other nodes) in the kernel and ktsnd
//	openvswitch  tunnels of a node whose ktsnd sends through Open vSwitch
//	nodestatus   status of the TSNNode, schedule of ktsnd
//	clocks       state of the node's clock
//	limits       limits for the pods of each network
//	encryption   keys and encrypted tunnels
//	links        interfaces of TSNLinks in pods
//	linkprobe    whether the other end of a link answers
//	pathmtu      MTU of the paths to other clusters
//	install      network plugin and its configuration on the node
//	objects      the node's objects from the API server
//	network      networks, and the node's subnet of each
//	sweep        removes the remains of deleted pods
//	metrics      Prometheus metrics of pods and classes
//	watch        Events on pods that do not get what they request
//	(host.go)    checks settings of the node, package hostcheck
//	inspect      inspects pods' programs in a separate process
//	privilege    drops capabilities
//	repeat       what reconcilers share that repeat everything periodically
//	removal      uninstalls the project from a cluster
package agent
