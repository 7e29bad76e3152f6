/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tunnel to remote nodes: outer headers, and the next hop in the underlay. Control thread.
 */
#ifndef KTSN_DAEMON_TUNNELS_H
#define KTSN_DAEMON_TUNNELS_H

#include "frame.h"
#include "neighbors.h"
#include "peers.h"
#include "routing_state.h"

/* Fills in the addresses of this node. */
void tunnel_source_fill(struct ktsn_frame_tunnel *tunnel, const struct uplink *uplink);
/* Fills in the outer headers except for the remote node's addresses. The inner path must be known. */
void tunnel_fill(struct ktsn_frame_tunnel *tunnel, const struct routing *routing,
		 const struct ktsn_frame_path *inner, uint32_t vni);
/* Finds the tunnel to a remote node, its next hop, and the MTU of the route (0: the uplink's). 0 or -errno;
 * after an error nothing has changed. */
int tunnel_find(const struct routing *routing, uint32_t remote_be, struct ktsn_frame_tunnel *tunnel,
		struct neighbor **underlay_next_hop, uint32_t *mtu_bytes);
/* Fills in the hardware address if the kernel knows it now, and the MTU of the route (0: the uplink's).
 * -EAGAIN: the kernel resolves it. */
int tunnel_reach(const struct routing *routing, uint32_t remote_be, struct ktsn_frame_tunnel *tunnel,
		 uint32_t *mtu_bytes);
/* Returns the neighbour of a peer, or NULL if there is no route. The result is kept for a while, because a
 * group needs all peers. The neighbour belongs to the peer. */
struct neighbor *tunnel_next_hop(struct routing *routing, struct peer *peer);
/* Returns the MTU inside the tunnel, over a route with this MTU (0: the uplink's). */
uint32_t tunnel_mtu_bytes(const struct routing *routing, uint32_t vni, uint32_t route_mtu_bytes);

#endif
