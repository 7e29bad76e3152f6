/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where messages to one destination go, and on which neighbours that depends. Filled in by routes.h, and for
 * several receivers by replication_lists.h. Control thread.
 */
#ifndef KTSN_DAEMON_ROUTE_H
#define KTSN_DAEMON_ROUTE_H

#include "endpoints.h"
#include "loop_objects.h"
#include "neighbors.h"

struct replication_list;

struct route {
	struct routing *routing;
	/* Called with `owner` when a neighbour that the route depends on changes. */
	void (*changed)(void *owner);
	void *owner;
	/* The endpoint that messages leave through. */
	uint32_t vni;
	struct namespace *ns; /* only compared, never used */
	int link_index;
	struct ktsn_address address;          /* of a unicast IP route */
	struct ktsn_address next_hop_address; /* of a unicast IP route */
	struct ktsn_address
		group; /* group whose members receive it; the unspecified address: all, or one receiver */
	struct loop_route frames;  /* as sent to the loop last */
	struct neighbor *next_hop; /* the pod that receives, or its gateway; in the sender's namespace. NULL:
				    * it is not IP, or to a group */
	struct neighbor *underlay_next_hop; /* the remote node, or the gateway to it; in ktsnd's namespace.
					     * NULL: on this node */
	uint32_t remote_be;                 /* address of the node; 0: this node, or several receivers */
	uint32_t underlay_mtu_bytes;        /* the least of the routes to the nodes; 0: the uplink's */
	struct neighbor_observer next_hop_observer, underlay_observer;
	const struct endpoint *local;         /* the local endpoint that receives; NULL: on another node */
	struct replication_list *replication; /* several receivers; NULL: one */
};

#endif
