// SPDX-License-Identifier: Apache-2.0

// Package ovs sets up Open vSwitch with DPDK as ktsnd's uplink on one node, and takes it down again:
//
//	ktsnd            tsnbr42, the bridge of network 42
//	 | vhost-user      | tsnvx42
//	 |                 |  veth pair
//	ktsnd            tsnov42 (VLAN 42)
//	  +---- br-int ------+
//	          | vx42-c0000202 (VLAN 42): VXLAN, one port for each network and peer
//	        br-phy, which has the tunnel's address
//	          | ktsn-phys
//	     the network card
//
// On br-int networks are kept apart by VLANs of the same number. ktsnd tags its frames with it; flows take the tag off
// and let the frame go on as if it had come from the network's veth, where the pod is: were it learnt at ktsnd's port,
// answers would end there.
//
// All is done with Open vSwitch's own tools. What this package made is marked in the database, and only that is changed
// or removed. Flows and the address of br-phy are not in the database: they end with ovs-vswitchd, and Keep brings them
// back.
//
// Threads: a Switch works in the network namespace of the thread that uses it, which must be the one of ovs-vswitchd.
package ovs
