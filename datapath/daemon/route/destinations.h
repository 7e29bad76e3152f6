/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that sockets send to, from the first message to the last. routes.h finds the routes of their
 * frames. Control thread.
 */
#ifndef KTSN_DAEMON_DESTINATIONS_H
#define KTSN_DAEMON_DESTINATIONS_H

#include "routes.h"

struct destination {
	struct destination_table *table;
	bool closed; /* its number stays taken until the loop has retired it */
	bool ended;  /* was closing in the previous ktsnd: closed after its messages have been taken */
	bool endpoint_gone;
	struct loop_destination *loop;
	uint32_t index;
	struct attachment *attachment; /* attachment of the pod to the destination's network */
	struct ktsn_app_key key;       /* as the library sent it */
	struct route route;
	struct destination *next, **previous_next; /* in routing's list */
};

/* The destinations of one ring, by number. */
struct destination_table {
	struct routing *routing;
	struct loop_ring *ring;
	const char *pod_name; /* name of the pod in logs */
	struct destination *entries[LOOP_DESTINATIONS_PER_RING];
	uint32_t hint; /* where the search for a free number starts */
};

/* Creates a destination of a flow, with the given number unless it is KTSN_APP_NONE, and announces it to the
 * loop. 0 with *created; ROUTE_TO_HOST or ROUTE_OFF_NETWORK (routes.h); or -errno as from sendmsg. */
int destination_create(struct destination_table *table, struct loop_flow *flow,
		       const struct route_query *query, uint32_t number, struct destination **created);
/* Tells the loop that no new messages will come for the destination. */
void destination_close(struct destination *destination);
/* Neighbours and peers do not affect the destination any more. */
void destination_detach(struct destination *destination);
void destination_free(struct destination *destination);
/* The same for all destinations of a table. */
void destination_table_detach(const struct destination_table *table);
void destination_table_free(struct destination_table *table);

/* The following functions pass changes to the loop: */
/* The peers of a network have changed. */
void destinations_peers_changed(struct routing *routing, uint32_t vni);
/* The receivers of groups have changed. */
void destinations_receivers_changed(struct routing *routing);
/* An endpoint was added: messages to its addresses go there. */
void destinations_endpoint_added(const struct routing *routing, struct endpoint *endpoint);
/* An endpoint was removed: messages through it are dropped; so are those to it, unless a peer has it now. */
void destinations_endpoint_gone(const struct routing *routing, const struct endpoint *endpoint);
/* The admission of an endpoint has changed: packet sockets may send other frames, and the endpoint receives
 * what is sent to other addresses. */
void destinations_admission_changed(const struct routing *routing, struct endpoint *endpoint);
/* The sending endpoint's bridge has another index. */
void destinations_bridge_changed(const struct routing *routing, const struct endpoint *sender);
/* MTUs have changed. */
void destinations_mtus_changed(const struct routing *routing);
/* The uplink's addresses or the node's routes have changed. */
void destinations_underlay_changed(struct routing *routing);
/* The encryption of a network has changed. */
void destinations_encryption_changed(const struct routing *routing, uint32_t vni);

/* Updates replication lists after changes of routing->receivers: at once, and at most every 100 ms, however
 * many peers change one by one. Returns ms until it must be called again, or -1. */
int destinations_tick(struct routing *routing);

#endif
