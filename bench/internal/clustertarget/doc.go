// SPDX-License-Identifier: Apache-2.0

// Package clustertarget performs the runs of a bench in a Kubernetes cluster: in pods on two nodes, in a namespace of
// their own, it starts the application (tsnperf) run by run.
//
//	tsn      talker-tsn, libktsn, the node's ktsnd  -> VXLAN, the tsn network of the other node -> listener
//	primary  talker                                 -> the network that each pod has            -> listener
//	host     talker-host                            -> the nodes' own network                   -> listener-host
//
// While messages are sent, only talker and listener run on the nodes: the bench reads the usage of nodes and pods from
// their kubelets, between runs.
//
// The files: connect and permissions (access to the cluster), location (nodes, network, image), namespace and pods
// (what is created and removed), exec (a program in a pod), clock (the difference of the nodes' clocks), run and
// companions (one run), usage (usage of nodes and pods), target (Target).
package clustertarget
