/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the route for frames from the key of an application: the pod's routing table has the interface, the
 * source address and the next hop; the peers have the node of the next hop; the two neighbour tables have the
 * hardware addresses, which may come later. For the kernel's errors see
 * udp_sendmsg() and udpv6_sendmsg().
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_ROUTES_H
#define KTSN_DAEMON_ROUTES_H

#include "app_protocol.h"
#include "route.h"
#include "socket_identity.h"

struct route_query {
	const struct ktsn_app_key *key; /* as the library sent it */
	const struct socket_attributes *attributes;
	const struct namespace *ns;           /* of the socket */
	const struct endpoint_set *endpoints; /* of its pod */
	bool frames;                          /* packet socket: messages have their own EtherType */
};

/* Results of route_find() for messages that the kernel sends. */
enum {
	ROUTE_TO_HOST = 1,     /* they do not leave the host */
	ROUTE_OFF_NETWORK = 2, /* they leave through an interface that is no endpoint of the pod */
};

/* Fills in a route whose routing, changed and owner are set. 0; ROUTE_TO_HOST or ROUTE_OFF_NETWORK, and
 * nothing is held; or -errno as from sendmsg. In any case route_release() releases what the route holds. */
int route_find(struct route *route, const struct route_query *query);
void route_release(struct route *route);
/* Copies the neighbours' hardware addresses into the frames' route. */
void route_apply(struct route *route);
/* Reports changes of neighbours from now on, except those of a replication list (tunnels.h). */
void route_observe_begin(struct route *route);
void route_observe_end(struct route *route);
/* Peers have changed: finds the remote node of a unicast route again. 1; 0: it is the same; or -errno when no
 * peer serves it any more, and then nothing has changed. */
int route_peer_refind(struct route *route);
/* Finds the place of the only receiver again: it has come to this node, left it, or has a peer again. 0 or
 * -errno; after an error the receiver has no place. */
int route_receiver_refind(struct route *route, const struct endpoint *sender);
/* The uplink's addresses or the node's routes have changed: updates the tunnel. Lists of receivers are
 * updated by replication_refind(). */
void route_underlay_refind(struct route *route);
/* Computes the longest payload that the links of the route carry now. `sender` is the sending endpoint. */
void route_payload_max_find(struct route *route, const struct endpoint *sender);

#endif
