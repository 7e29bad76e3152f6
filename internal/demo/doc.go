// SPDX-License-Identifier: Apache-2.0

// Package demo measures KuberneTSN beside the kernel's own paths on one machine: two nodes and two pods as
// network namespaces, the real ktsnd and libktsn, an ordinary application (tsnperf) that sends one message
// a cycle, and for each path the same messages in the same minute.
//
//	direct        talker in pod a, libktsn, ktsnd on node a   -> VXLAN, bridge, veth of node b -> pod b
//	kernel-vxlan  talker in pod a, veth, bridge, VXLAN        -> VXLAN, bridge, veth of node b -> pod b
//	host          talker on node a                            -> listener on node b
//
// The paths take turns in alternations of about a second, so that what disturbs the machine disturbs all
// of them. Under a schedule path direct alone is measured, with and without what competes for the link; these
// workloads take turns, too.
//
// What each file does: config (what is asked), plan (the order of runs), workload (what is beside the messages),
// daemon and gates (ktsnd and its schedule), traffic, companions and watch (one run), join (what became of each
// message), report, figures and table (what it means).
package demo
