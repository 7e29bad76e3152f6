// SPDX-License-Identifier: Apache-2.0

// Package clustertarget makes the runs of a bench in a Kubernetes cluster: pods on two nodes, in a namespace of their own, in
// which the ordinary application (tsnperf) is started run by run.
//
//	tsn      talker-tsn, libktsn, the node's ktsnd  -> VXLAN, the tsn network of the other node -> listener
//	primary  talker                                 -> the network that each pod has            -> listener
//	host     talker-host                            -> the nodes' own network                   -> listener-host
//
// Nothing of the bench runs on the nodes while there are messages, but talker and listener: what nodes and pods use
// meanwhile is what their kubelets count, and is asked for between runs.
//
// What each file does: connect and permissions (what the cluster lets us), place (nodes, network, image), namespace and
// pods (what is made, and removed), exec (a program in a pod), clock (how far the nodes' clocks are apart), run and beside
// (one run), usage (what nodes and pods use), lab (the target).
package clustertarget
