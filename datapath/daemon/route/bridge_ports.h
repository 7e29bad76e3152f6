/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ports of this node's bridges, out of which replication lists send, and the receivers behind them: each
 * has a queue and a thread at the port onto the bridges (port/delivery.h). Ports that belong to no endpoint
 * have receivers too, because messages to groups go there as well. Control thread.
 */
#ifndef KTSN_DAEMON_BRIDGE_PORTS_H
#define KTSN_DAEMON_BRIDGE_PORTS_H

#include "routing_state.h"

struct bridge_receiver;

/* A port of a bridge, or a tunnel that is in no bridge. */
struct bridge_port {
	int link_index;
	int bridge_link_index; /* 0: none */
	bool tunnel;
	uint32_t vni; /* of a VXLAN device or a link into Open vSwitch, else 0 */
};

/* Reads the ports from the kernel. Returns whether they have changed. */
bool bridge_ports_read(struct routing *routing);

/* ---- receivers ---- */

/* Creates and closes receivers after changes of endpoints and ports. */
void bridge_receivers_follow(struct routing *routing);
/* Closes all receivers. The loop may have ended. */
void bridge_receivers_close(struct routing *routing);
/* Frees a receiver that the loop has retired. */
void bridge_receiver_free(struct routing *routing, struct bridge_receiver *receiver);

#endif
