/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an address to a route for frames: the pod's routing table says through which of its interfaces and
 * to which neighbour; the peers say behind which node that is; the two neighbour tables give the hardware
 * addresses, which may come later.
 */
#include "node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { IPV4_TTL_OUTER = 64 };

static struct endpoint *endpoint_of_link(const struct pod *pod, const struct namespace *ns, int link_index)
{
	struct endpoint *endpoint = pod->endpoints;

	while (endpoint && (endpoint->ns != ns || endpoint->link_index != link_index))
		endpoint = endpoint->next;
	return endpoint;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t udp_payload(uint32_t link_bytes)
{
	return link_bytes - KTSN_IPV4_HEADER_BYTES - KTSN_UDP_HEADER_BYTES;
}

/* Payload of a datagram that fits the pod's link and, wrapped, the uplink. */
static uint32_t payload_max(const struct node *node, const struct endpoint *endpoint)
{
	uint32_t link_bytes = smaller(endpoint->mtu_bytes, node->uplink.mtu_bytes - KTSN_TUNNEL_HEADER_BYTES);

	return udp_payload(link_bytes);
}

static void inner_path_fill(struct ktsn_frame_path *path, const struct flow *flow,
			    const struct endpoint *endpoint, uint32_t source_be, uint32_t address_be,
			    uint16_t port_be)
{
	*path = flow->source;
	memcpy(path->source_mac, endpoint->mac, sizeof(path->source_mac));
	path->source_ipv4_be = source_be;
	path->destination_ipv4_be = address_be;
	path->destination_port_be = port_be;
}

/* All of the outer headers but the remote node's addresses; once the inner path is known. */
static void tunnel_fill(struct ktsn_frame_tunnel *tunnel, const struct node *node,
			const struct ktsn_frame_path *inner, uint32_t vni)
{
	memcpy(tunnel->outer.source_mac, node->uplink.mac, sizeof(tunnel->outer.source_mac));
	tunnel->outer.source_ipv4_be = node->uplink.local_address_be;
	tunnel->outer.source_port_be = ktsn_frame_tunnel_source_port_be(inner);
	tunnel->outer.destination_port_be = htons(node->uplink.vxlan_port);
	tunnel->outer.ttl = IPV4_TTL_OUTER;
	tunnel->vni = vni;
	tunnel->vlan_id = node->uplink.vlan_id;
}

static enum loop_destination_state state_of(const struct destination *destination)
{
	enum rtnl_neighbor_state inner = destination->inner->entry.state;
	/* A pod of this node is on the sender's own link. */
	enum rtnl_neighbor_state outer = destination->here ? NEIGHBOR_VALID : destination->outer->entry.state;

	if (inner == NEIGHBOR_VALID && outer == NEIGHBOR_VALID)
		return DESTINATION_RESOLVED;
	if (inner == NEIGHBOR_FAILED || outer == NEIGHBOR_FAILED)
		return DESTINATION_UNREACHABLE;
	return DESTINATION_RESOLVING;
}

/* Copies what the neighbours say into the route. */
static void neighbors_apply(struct destination *destination)
{
	struct loop_route *route = &destination->route;

	route->state = state_of(destination);
	memcpy(route->path.destination_mac, destination->inner->entry.mac, 6);
	if (destination->outer)
		memcpy(route->tunnel.outer.destination_mac, destination->outer->entry.mac, 6);
}

/* The remote node and the way to it. */
static int outer_resolve(struct destination *destination, uint32_t next_hop_be)
{
	struct node *node = destination->node;
	const struct peer *peer = node_peer_of(node, destination->vni, destination->address_be);
	struct rtnl_route route;
	int err;

	if (!peer)
		peer = node_peer_of(node, destination->vni, next_hop_be);
	if (!peer)
		return -EHOSTUNREACH;
	err = rtnl_route_get(node->own_ns->rtnl, peer->address_be, node->uplink.local_address_be, &route);
	if (err)
		return err;
	if (!route.unicast || route.link_index != node->uplink.link_index)
		return -ENETUNREACH;
	destination->route.tunnel.outer.destination_ipv4_be = peer->address_be;
	return neighbor_get(node->own_ns, route.link_index,
			    route.gateway_be ? route.gateway_be : peer->address_be, &destination->outer);
}

/* Whether the destination is a pod of this node that the sender's bridge leads to; then fills in the way. */
static bool here_resolve(struct destination *destination, const struct endpoint *sender)
{
	const struct endpoint *here =
		node_endpoint_of(destination->node, sender->vni, destination->address_be);

	if (!here || !sender->bridge_link_index || here->bridge_link_index != sender->bridge_link_index)
		return false;
	destination->here = here;
	destination->route.bridge_link_index = sender->bridge_link_index;
	destination->route.payload_max_bytes = udp_payload(smaller(sender->mtu_bytes, here->mtu_bytes));
	return true;
}

/* The way to a pod of another node. */
static int outer_fill(struct destination *destination, const struct endpoint *sender, uint32_t next_hop_be)
{
	tunnel_fill(&destination->route.tunnel, destination->node, &destination->route.path, sender->vni);
	destination->route.payload_max_bytes = payload_max(destination->node, sender);
	return outer_resolve(destination, next_hop_be);
}

/* Fills in the destination's route. 1: through another interface, and nothing is held; 0; or -errno. */
static int destination_resolve(struct destination *destination, const struct flow *flow, uint16_t port_be)
{
	struct rtnl_route route;
	struct endpoint *endpoint;
	uint32_t next_hop_be;
	int err =
		rtnl_route_get(flow->ns->rtnl, destination->address_be, flow->source.source_ipv4_be, &route);

	if (err)
		return err;
	endpoint = endpoint_of_link(flow->process->pod, flow->ns, route.link_index);
	if (!endpoint)
		return 1;
	/* Multicast and broadcast have no single peer; refused, because the kernel would send at once. */
	if (!route.unicast)
		return -EOPNOTSUPP;
	next_hop_be = route.gateway_be ? route.gateway_be : destination->address_be;
	destination->vni = endpoint->vni;
	destination->ns = endpoint->ns;
	destination->link_index = endpoint->link_index;
	inner_path_fill(&destination->route.path, flow, endpoint, route.source_be, destination->address_be,
			port_be);
	err = here_resolve(destination, endpoint) ? 0 : outer_fill(destination, endpoint, next_hop_be);
	if (!err)
		err = neighbor_get(flow->ns, route.link_index, next_hop_be, &destination->inner);
	return err;
}

/* The number that was asked for, if it is free; else any that is. */
static int destination_number_free(struct process *process, uint32_t wanted, uint32_t *index)
{
	if (wanted != KTSN_APP_NONE) {
		*index = wanted;
		return wanted < LOOP_DESTINATIONS_PER_RING && !process->destinations[wanted] ? 0 : -EINVAL;
	}
	for (uint32_t tried = 0; tried < LOOP_DESTINATIONS_PER_RING; tried++) {
		uint32_t i = process->destination_hint++ % LOOP_DESTINATIONS_PER_RING;

		if (!process->destinations[i]) {
			*index = i;
			return 0;
		}
	}
	return -ENOBUFS;
}

static void destination_enter(struct destination *destination, struct process *process)
{
	struct node *node = destination->node;

	process->destinations[destination->index] = destination;
	destination->process = process;
	destination->previous_next = &node->destinations;
	destination->next = node->destinations;
	if (destination->next)
		destination->next->previous_next = &destination->next;
	node->destinations = destination;
	destination->loop->route = destination->route;
	loop_command(node->loop, &(struct loop_command){.type = COMMAND_DESTINATION_OPEN,
							.ring = process->ring,
							.index = destination->index,
							.destination = destination->loop});
}

static void destination_discard(struct destination *destination)
{
	neighbor_put(destination->inner);
	neighbor_put(destination->outer);
	free(destination->loop);
	free(destination);
}

int destination_create(struct flow *flow, uint32_t address_be, uint16_t port_be, uint32_t number,
		       struct destination **created)
{
	struct process *process = flow->process;
	struct destination *destination = calloc(1, sizeof(*destination));
	int result = -ENOMEM;

	*created = NULL;
	if (!destination)
		return -ENOMEM;
	destination->node = process->pod->node;
	destination->address_be = address_be;
	destination->loop = calloc(1, sizeof(*destination->loop));
	if (destination->loop)
		result = destination_number_free(process, number, &destination->index);
	if (result == 0)
		result = destination_resolve(destination, flow, port_be);
	if (result != 0) {
		destination_discard(destination);
		return result < 0 ? result : 0;
	}
	neighbors_apply(destination);
	destination->loop->object = (struct loop_object){.kind = LOOP_DESTINATION, .owner = destination};
	destination->loop->flow = flow->loop;
	destination->loop->ring = process->ring;
	destination->loop->priority = flow->priority;
	destination_enter(destination, process);
	*created = destination;
	return 0;
}

void destination_close(struct destination *destination)
{
	struct process *process = destination->process;

	destination->closed = true;
	loop_command(destination->node->loop, &(struct loop_command){.type = COMMAND_DESTINATION_CLOSE,
								     .ring = process->ring,
								     .index = destination->index});
}

void destination_detach(struct destination *destination)
{
	if (!destination->previous_next)
		return;
	*destination->previous_next = destination->next;
	if (destination->next)
		destination->next->previous_next = destination->previous_next;
	destination->previous_next = NULL;
}

void destination_free(struct destination *destination)
{
	destination_detach(destination);
	destination->process->destinations[destination->index] = NULL;
	destination_discard(destination);
}

static void destination_tell(struct destination *destination)
{
	loop_command(destination->node->loop, &(struct loop_command){.type = COMMAND_DESTINATION_UPDATE,
								     .destination = destination->loop,
								     .route = destination->route});
}

static void destination_end(struct destination *destination)
{
	destination->route.state = DESTINATION_CLOSED;
	destination_tell(destination);
}

void destinations_neighbor_changed(struct node *node, const struct neighbor *neighbor)
{
	for (struct destination *d = node->destinations; d; d = d->next) {
		struct loop_route before = d->route;

		if ((d->inner != neighbor && d->outer != neighbor) || before.state == DESTINATION_CLOSED)
			continue;
		neighbors_apply(d);
		if (memcmp(&before, &d->route, sizeof(before)) != 0)
			destination_tell(d);
	}
}

/* Where a destination's traffic goes follows the peers; one that no peer serves any more is closed. */
static void destination_follow_peers(struct destination *destination)
{
	struct neighbor *before = destination->outer;

	destination->outer = NULL;
	if (outer_resolve(destination, destination->inner->entry.address_be)) {
		destination->outer = before;
		destination_end(destination);
		return;
	}
	neighbor_put(before);
	neighbors_apply(destination);
	destination_tell(destination);
}

void destinations_peers_changed(struct node *node, uint32_t vni)
{
	for (struct destination *d = node->destinations; d; d = d->next)
		if (d->vni == vni && !d->endpoint_gone && !d->here)
			destination_follow_peers(d);
}

void destinations_endpoint_gone(struct node *node, const struct endpoint *endpoint)
{
	for (struct destination *d = node->destinations; d; d = d->next) {
		if (d->here != endpoint && (d->ns != endpoint->ns || d->link_index != endpoint->link_index))
			continue;
		d->here = NULL;
		d->endpoint_gone = true;
		destination_end(d);
	}
}
