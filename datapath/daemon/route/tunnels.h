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

/* Fills in the outer headers except for the remote node's addresses. The inner path must be known. */
void tunnel_fill(struct ktsn_frame_tunnel *tunnel, const struct routing *routing,
		 const struct ktsn_frame_path *inner, uint32_t vni);
/* Finds the tunnel to a remote node, and its next hop. 0 or -errno; neighbour and address are filled in. */
int tunnel_find(const struct routing *routing, uint32_t remote_be, struct ktsn_frame_tunnel *tunnel,
		struct neighbor **underlay_next_hop);
/* Fills in the hardware address if the kernel knows it now. -EAGAIN: the kernel resolves it. */
int tunnel_reach(const struct routing *routing, uint32_t remote_be, struct ktsn_frame_tunnel *tunnel);
/* Returns the neighbour of a peer, or NULL if there is no route. The result is kept for a while, because a
 * group needs all peers. The neighbour belongs to the peer. */
struct neighbor *tunnel_next_hop(struct routing *routing, struct peer *peer);
/* Returns the MTU inside the tunnel. */
uint32_t tunnel_mtu_bytes(const struct routing *routing, uint32_t vni);

#endif
