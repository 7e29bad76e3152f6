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
// On br-int each network is the VLAN with the network's number. ktsnd tags its frames with it. Flows remove the tag and let
// the frame continue as if it had come from the network's veth, where the pod is: if br-int learnt the pod's address at ktsnd's
// port, replies would end there.
//
// The package uses Open vSwitch's own tools. It marks everything that it creates in the database, and changes or removes only
// that. Flows and the address of br-phy are not in the database: they end with ovs-vswitchd, and Keep restores them.
//
// Threads: a Switch works in the network namespace of the thread that uses it, which must be the one of ovs-vswitchd.
package ovs
