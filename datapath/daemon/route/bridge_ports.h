/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ports of this node's bridges, out of which replication lists send. Control thread.
 */
#ifndef KTSN_DAEMON_BRIDGE_PORTS_H
#define KTSN_DAEMON_BRIDGE_PORTS_H

#include "routing_state.h"

/* Also a tunnel that is in no bridge. */
struct bridge_port {
	int link_index;
	int bridge_link_index; /* 0: none */
	bool tunnel;
	uint32_t vni; /* of a VXLAN device, else 0 */
};

/* Asks the kernel for the ports. True when they are others than before. */
bool bridge_ports_read(struct routing *routing);

#endif
