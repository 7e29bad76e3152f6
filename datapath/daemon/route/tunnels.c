/* SPDX-License-Identifier: Apache-2.0 */
#include "tunnels.h"

#include "clock.h"
#include "encryption.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

enum {
	IPV4_TTL_OUTER = 64,
	/* How long the result of a look-up of a peer's route is kept, with a route and without. */
	NEXT_HOP_MS = 5000,
	NO_NEXT_HOP_MS = 1000,
};

uint32_t tunnel_mtu_bytes(const struct routing *routing, uint32_t vni, uint32_t route_mtu_bytes)
{
	uint32_t mtu_bytes = route_mtu_bytes && route_mtu_bytes < routing->uplink.mtu_bytes
				     ? route_mtu_bytes
				     : routing->uplink.mtu_bytes;
	uint32_t around_bytes = KTSN_TUNNEL_HEADER_BYTES +
				(encryption_of(routing, vni) == LOOP_CLEAR ? 0 : KTSN_ESP_OVERHEAD_BYTES_MAX);

	return mtu_bytes > around_bytes ? mtu_bytes - around_bytes : 0;
}

void tunnel_source_fill(struct ktsn_frame_tunnel *tunnel, const struct uplink *uplink)
{
	memcpy(tunnel->outer.source_mac, uplink->mac, sizeof(tunnel->outer.source_mac));
	tunnel->outer.source_ipv4_be = uplink->local_address_be;
}

void tunnel_fill(struct ktsn_frame_tunnel *tunnel, const struct routing *routing,
		 const struct ktsn_frame_path *inner, uint32_t vni)
{
	const struct uplink *uplink = &routing->uplink;

	tunnel_source_fill(tunnel, uplink);
	tunnel->outer.source_port_be = ktsn_frame_tunnel_source_port_be(inner);
	tunnel->outer.destination_port_be = htons(peer_network_port(routing, vni));
	tunnel->outer.ttl = IPV4_TTL_OUTER;
	/* As the kernel's tunnels: a router towards the peer may have a smaller MTU than the uplink. */
	tunnel->outer.fragmentable = true;
	tunnel->vni = vni;
	tunnel->switched = uplink->switched;
	/* The switch keeps the networks apart by tags of their numbers (endpoint_make). */
	tunnel->vlan_id = uplink->switched ? (uint16_t)vni : uplink->vlan_id;
}

/* Finds the next hop to a node in the underlay, and the MTU of the route. */
static int next_hop_find(const struct routing *routing, uint32_t remote_be, struct ktsn_address *next_hop,
			 uint32_t *mtu_bytes)
{
	const struct rtnl_route_query query = {
		.destination = ktsn_address_of_ipv4(remote_be),
		.source = ktsn_address_of_ipv4(routing->uplink.local_address_be)};
	struct rtnl_route route;
	int err = rtnl_route_get(routing->own_ns->rtnl, &query, &route);

	if (err)
		return err;
	if (route.type != ROUTE_UNICAST || route.link_index != routing->uplink.link_index)
		return -ENETUNREACH;
	*next_hop = ktsn_address_is_any(&route.gateway) ? query.destination : route.gateway;
	*mtu_bytes = route.mtu_bytes;
	return 0;
}

int tunnel_find(const struct routing *routing, uint32_t remote_be, struct ktsn_frame_tunnel *tunnel,
		struct neighbor **underlay_next_hop, uint32_t *mtu_bytes)
{
	struct ktsn_address next_hop;
	uint32_t route_mtu_bytes;
	int err = next_hop_find(routing, remote_be, &next_hop, &route_mtu_bytes);

	if (!err)
		err = neighbor_get(routing->own_ns, routing->uplink.link_index, &next_hop, underlay_next_hop);
	if (err)
		return err;
	tunnel->outer.destination_ipv4_be = remote_be;
	*mtu_bytes = route_mtu_bytes;
	return 0;
}

int tunnel_reach(const struct routing *routing, uint32_t remote_be, struct ktsn_frame_tunnel *tunnel,
		 uint32_t *mtu_bytes)
{
	struct rtnl *rtnl = routing->own_ns->rtnl;
	struct ktsn_address next_hop;
	struct rtnl_neighbor neighbor;
	int err = next_hop_find(routing, remote_be, &next_hop, mtu_bytes);

	if (!err)
		err = rtnl_neighbor_get(rtnl, routing->uplink.link_index, &next_hop, &neighbor);
	if (err)
		return err;
	/* A valid neighbour may be stale: have the kernel confirm it. */
	if (!neighbor.configured)
		(void)rtnl_neighbor_use(rtnl, routing->uplink.link_index, &next_hop);
	if (neighbor.state != NEIGHBOR_VALID)
		return -EAGAIN;
	tunnel->outer.destination_ipv4_be = remote_be;
	memcpy(tunnel->outer.destination_mac, neighbor.mac, sizeof(tunnel->outer.destination_mac));
	return 0;
}

static void next_hop_changed(void *owner)
{
	struct routing *routing = owner;

	routing->receivers.changed = true;
}

struct neighbor *tunnel_next_hop(struct routing *routing, struct peer *peer)
{
	int64_t now_ms = clock_monotonic_ms();
	struct neighbor *before = peer->next_hop;
	struct ktsn_frame_tunnel tunnel;

	if (peer->next_hop_found_ms &&
	    now_ms - peer->next_hop_found_ms < (before ? NEXT_HOP_MS : NO_NEXT_HOP_MS))
		return before;
	neighbor_observer_remove(&peer->next_hop_observer);
	peer->next_hop_found_ms = now_ms;
	if (tunnel_find(routing, peer->address_be, &tunnel, &peer->next_hop, &peer->route_mtu_bytes))
		peer->next_hop = NULL;
	neighbor_put(before);
	neighbor_observer_add(peer->next_hop, &peer->next_hop_observer, next_hop_changed, routing);
	return peer->next_hop;
}
