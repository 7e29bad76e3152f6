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

/* Also a tunnel that is in no bridge. */
struct bridge_port {
	int link_index;
	int bridge_link_index; /* 0: none */
	bool tunnel;
	uint32_t vni; /* of a VXLAN device, else 0 */
};

/* Asks the kernel for the ports. True when they are others than before. */
bool bridge_ports_read(struct routing *routing);

/* ---- receivers ---- */

/* Begins and ends receivers by the endpoints and ports that there are, when they have changed. */
void bridge_receivers_follow(struct routing *routing);
/* Ends all of them; the loop may have ended. */
void bridge_receivers_close(struct routing *routing);
/* Of one that the loop has retired. */
void bridge_receiver_free(struct routing *routing, struct bridge_receiver *receiver);

#endif
