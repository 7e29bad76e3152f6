// SPDX-License-Identifier: Apache-2.0

// Package netnstarget performs the runs of a bench on one machine: two nodes and two pods as network namespaces, the
// real ktsnd and libktsn, and an application (tsnperf) that sends one message per cycle.
//
//	direct        talker in pod a, libktsn, ktsnd on node a   -> VXLAN, bridge, veth of node b -> pod b
//	kernel-vxlan  talker in pod a, veth, bridge, VXLAN        -> VXLAN, bridge, veth of node b -> pod b
//	host          talker on node a                            -> listener on node b
//
// The talkers of the last two sleep until they send. On paths kernel-vxlan-spin and host-spin they busy-wait before
// each send, like ktsnd.
//
// The files: target (settings and runs), programs, pinning and scheduling (prerequisites), daemon and gates (ktsnd and
// its schedule), run, companions, watch, sampler and stamping (one run), clock (the accuracy of the times).
package netnstarget
