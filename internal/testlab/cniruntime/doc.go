// SPDX-License-Identifier: Apache-2.0

// Package cniruntime calls network plugins like the container runtime of a node, through libcni, with the plugins
// running in the network namespace of the node. Wiring attaches the pods of a topology with it:
//
//	pod a                    pod b
//	 tsn0 10.42.1.2           tsn0 10.42.2.2      MTU 1450
//	  |                        |
//	 tsn… -- br0 -- vxlan42   tsn… -- br0 -- vxlan42
//	node a            |      node b            |
//	                 phys0 ------------------ phys0   MTU 1500
package cniruntime
