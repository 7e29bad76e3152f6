// SPDX-License-Identifier: Apache-2.0

// Package agent puts the agent of a node together: each folder below is one thing that it does, and knows of the others
// only what it declares itself.
//
//	csi          pods' volumes: a folder with libktsn.so and the pod's socket
//	daemon       keeps ktsnd told of pods and peers, also after it was started anew
//	peers        the other nodes, for kernel and ktsnd together
//	openvswitch  the tunnels of a node whose ktsnd sends through Open vSwitch
//	nodestatus   the status of the TSNNode, and the schedule of ktsnd
//	clocks       whether the node's clock can be believed
//	limits       what the pods of each network may send
//	install      network plugin and its configuration, on the node
//	objects      what the API server says of the node and of its networks
//	network      which networks there are, and which part of each is this node's
//	sweep        removes what pods left that do not exist any more
//	metrics      figures of pods and classes for Prometheus
//	watch        Events on pods that do not get what they asked for
//	inspect      looks at pods' programs, in a process of its own
//	health       whether all of that works
//	privilege    gives up what the agent does not need
//	removal      takes the project off a cluster
package agent
