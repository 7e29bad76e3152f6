// SPDX-License-Identifier: Apache-2.0

// Package podnetworks creates several networks between the same two nodes, as network namespaces of this machine, so
// that programs that know none of them can be measured over each: one pod on node a, and any number on node b.
//
//	host             node a                                                        -> node b
//	flannel          pod a, veth, bridge, route into VXLAN without learning        -> VXLAN, route, bridge, veth, pods b
//	flannel-host-gw  pod a, veth, bridge, route to the other node                  -> route, bridge, veth, pods b
//	tsn              pod a, libktsn, veth, bridge, VXLAN of tsn-cni; ktsnd on both -> VXLAN, bridge, veth, pods b
//	link             the same with a point-to-point link of tsn-cni, fixed addresses -> one pod b only
//
// The devices, addresses and routes of flannel and flannel-host-gw are those that Flannel sets up with its backends
// vxlan and host-gw, created here without Flannel. tsn-cni attaches network tsn; programs in its pods have libktsn
// preloaded, as in an annotated pod, and the kernel sends their messages without a transmit time.
//
// The nodes are on one link, or in two subnets with a router between.
//
// The files: networks (Create), flannel, tsn and plugged (one kind each), nodes and ktsnd (the daemons), link
// (devices).
// Threads: one goroutine.
package podnetworks
