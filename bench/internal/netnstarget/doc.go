// SPDX-License-Identifier: Apache-2.0

// Package netnstarget makes the runs of a bench on one machine: two nodes and two pods as network namespaces, the real ktsnd
// and libktsn, and an ordinary application (tsnperf) that sends one message a cycle.
//
//	direct        talker in pod a, libktsn, ktsnd on node a   -> VXLAN, bridge, veth of node b -> pod b
//	kernel-vxlan  talker in pod a, veth, bridge, VXLAN        -> VXLAN, bridge, veth of node b -> pod b
//	host          talker on node a                            -> listener on node b
//
// The talkers of the last two sleep until they send. On paths kernel-vxlan-spin and host-spin they are awake before, as ktsnd is.
//
// What each file does: target (where runs are made, and in which setting), programs, pinning and scheduling (with what), daemon
// and gates (ktsnd and its schedule), run, companions, watch, sampler and stamping (one run), clock (how exact its times are).
package netnstarget
