/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that sockets send to, from the first message to the last. Where their frames go is found out in
 * routes.h. Control thread.
 */
#ifndef KTSN_DAEMON_DESTINATIONS_H
#define KTSN_DAEMON_DESTINATIONS_H

#include "routes.h"

struct destination {
	struct destination_table *table;
	bool closed; /* its number stays taken until the loop is done with it */
	bool ended;  /* in the ktsnd it was taken over from: closed once its messages are taken */
	bool endpoint_gone;
	struct loop_destination *loop;
	uint32_t index;
	struct attachment *attachment; /* of the pod to the network that it leaves by */
	struct ktsn_app_key key;       /* as the library asked for it */
	struct route route;
	struct destination *next, **previous_next; /* in routing's list */
};

/* Those of one ring, by number. */
struct destination_table {
	struct routing *routing;
	struct loop_ring *ring;
	const char *pod_name; /* as logs call the pod */
	struct destination *entries[LOOP_DESTINATIONS_PER_RING];
	uint32_t hint; /* where to look for a free number */
};

/* Makes a destination of a socket's flow, under that number if it is not KTSN_APP_NONE, and announces it to
 * the loop. 0 with *created, which is NULL when the pod's routes lead through another interface; or -errno as
 * sendmsg gives it. */
int destination_create(struct destination_table *table, struct loop_flow *flow,
		       const struct route_query *query, uint32_t number, struct destination **created);
/* Tells the loop that no new messages come for it. */
void destination_close(struct destination *destination);
/* No neighbour and no peer has anything to say about it any more. */
void destination_detach(struct destination *destination);
void destination_free(struct destination *destination);
/* The same for all of a table. */
void destination_table_detach(const struct destination_table *table);
void destination_table_free(struct destination_table *table);

/* What changed is told to the loop: */
/* Peers of a network. */
void destinations_peers_changed(struct routing *routing, uint32_t vni);
/* Receivers of groups, now. */
void destinations_receivers_changed(struct routing *routing);
/* An endpoint: messages through it, or to it, have nowhere to go any more. */
void destinations_endpoint_gone(const struct routing *routing, const struct endpoint *endpoint);
/* What it may send, of frames that applications write themselves. */
void destinations_admission_changed(const struct routing *routing, const struct endpoint *endpoint);
/* Links carry longer or shorter messages. */
void destinations_mtus_changed(const struct routing *routing);
/* A network asks for more encryption, or less. */
void destinations_encryption_changed(const struct routing *routing, uint32_t vni);

/* Has replication lists follow routing->receivers: at once, and not more often than every 100 ms, however
 * many peers are told one by one. Returns ms until it wants to be called again, -1: not. */
int destinations_tick(struct routing *routing);

#endif
