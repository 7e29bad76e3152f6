/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receivers of messages to this node: ports of the bridges of endpoints, each with a queue and a thread
 * at the port onto the bridges (port/delivery.h). Also ports that are no endpoint's, because messages to
 * groups go there as well.
 *
 * Control thread. Part of route: above loop and net, below node.
 */
#ifndef KTSN_DAEMON_BRIDGE_RECEIVERS_H
#define KTSN_DAEMON_BRIDGE_RECEIVERS_H

#include "routing_state.h"

struct bridge_receiver;

/* Begins and ends receivers by the endpoints and ports that there are, when they have changed. */
void bridge_receivers_follow(struct routing *routing);
/* Ends all of them; the loop may have ended. */
void bridge_receivers_close(struct routing *routing);
/* Of one that the loop has retired. */
void bridge_receiver_free(struct routing *routing, struct bridge_receiver *receiver);

#endif
