/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what an application asks for to a route for frames: the pod's routing table says through which of its
 * interfaces, from which address and to which next hop; the peers say behind which node that is; the two
 * neighbour tables give the hardware addresses, which may come later. For the kernel's errors see
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
	const struct ktsn_app_key *key; /* as the library asked for it */
	const struct socket_attributes *attributes;
	const struct namespace *ns;           /* of the socket */
	const struct endpoint_set *endpoints; /* of its pod */
	bool frames;                          /* of a flow whose messages say their EtherType themselves */
};

/* Fills in a route, of which routing, changed and owner are set. 1: through another interface, and nothing is
 * held; 0; or -errno as sendmsg gives it. Whatever it is, route_release() gives back what is held. */
int route_find(struct route *route, const struct route_query *query);
void route_release(struct route *route);
/* Copies what the neighbours say into the frames' route. */
void route_apply(struct route *route);
/* From here on changes of neighbours are told; not those of a replication list (tunnels.h). */
void route_observe_begin(struct route *route);
void route_observe_end(struct route *route);
/* Peers have changed: finds the remote node of a unicast route anew. 1; 0: it is the same; or -errno when no
 * peer serves it any more, and then nothing changed. */
int route_peer_refind(struct route *route);
/* The longest payload that the links of the route carry now; `sender` is the endpoint that it leaves
 * through. */
void route_payload_max_find(struct route *route, const struct endpoint *sender);

#endif
