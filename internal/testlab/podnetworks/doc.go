// SPDX-License-Identifier: Apache-2.0

// Package podnetworks makes several networks between the same two nodes, as network namespaces of this machine, so that programs
// that know none of them can be measured over each: one pod on node a, and as many as wanted on node b.
//
//	host             node a                                                        -> node b
//	flannel          pod a, veth, bridge, route into VXLAN without learning        -> VXLAN, route, bridge, veth, pods b
//	flannel-host-gw  pod a, veth, bridge, route to the other node                  -> route, bridge, veth, pods b
//	tsn              pod a, libktsn, veth, bridge, VXLAN of tsn-cni; ktsnd on both -> VXLAN, bridge, veth, pods b
//	link             the same with a point-to-point link of tsn-cni, fixed addresses -> one pod b only
//
// The devices, addresses and routes of flannel and flannel-host-gw are those that Flannel sets up with its backends vxlan and
// host-gw, made here without it. Network tsn is attached by tsn-cni; programs in its pods have libktsn preloaded as a pod with
// the annotation has, and what they send without a transmit time is the kernel's.
//
// The nodes are on one link, or in two subnets with a router between.
//
// What each file does: networks (what is made), flannel, tsn and plugged (one kind each), nodes and ktsnd (the daemons), link
// (devices).
// Threads: one goroutine.
package podnetworks
