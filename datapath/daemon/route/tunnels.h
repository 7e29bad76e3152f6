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

/* All of the outer headers but the remote node's addresses; once the inner path is known. */
void tunnel_fill(struct ktsn_frame_tunnel *tunnel, const struct routing *routing,
		 const struct ktsn_frame_path *inner, uint32_t vni);
/* Where the tunnel to a remote node leads, and through whom. 0 or -errno; neighbour and address are filled
 * in. */
int tunnel_find(const struct routing *routing, uint32_t remote_be, struct ktsn_frame_tunnel *tunnel,
		struct neighbor **underlay_next_hop);
/* The hardware address as well, if the kernel knows it now. -EAGAIN: it was asked to find it out. */
int tunnel_reach(const struct routing *routing, uint32_t remote_be, struct ktsn_frame_tunnel *tunnel);
/* The neighbour of a peer, whose answer is kept for a while: a group asks for all of them. The neighbour is
 * the peer's; NULL: there is no way. */
struct neighbor *tunnel_next_hop(struct routing *routing, struct peer *peer);
/* What the tunnel leaves of the uplink's MTU. */
uint32_t tunnel_mtu_bytes(const struct routing *routing, uint32_t vni);

#endif
