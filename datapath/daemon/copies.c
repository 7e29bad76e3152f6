/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Destinations that are several: groups, broadcast, and frames to a hardware address of which nobody knows where
 * it is. One copy goes to each peer of the network, and one out of each port of its bridge on this node but the
 * sender's own and the tunnel's: onto the bridge itself it would also go into the kernel's tunnel, and arrive
 * twice. Who they are follows peers and ports.
 *
 * An address that means something on one link only (fe80::) is of one pod, whose hardware address its neighbour
 * says; the copies then go to the peers alone, since a pod of this node would have been found.
 *
 * No message has more than LOOP_COPIES_MAX copies; who comes later gets none, and that is logged.
 */
#include "log.h"
#include "node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct many {
	bool ports;                 /* also out of this node's */
	uint32_t bridge_link_index; /* of the sender; 0: none */
	uint32_t sender_link_index; /* of the sender's port */
	uint32_t count;
	struct {
		struct loop_route route;
		struct neighbor *outer; /* NULL: out of a port of this node */
	} copies[LOOP_COPIES_MAX];
};

/* What is known of the bridge's ports. */
struct ports_search {
	struct destination *destination;
	int tunnel_link_index;
	int err;
};

static void copies_forget(struct many *many)
{
	for (uint32_t i = 0; i < many->count; i++)
		neighbor_put(many->copies[i].outer);
	many->count = 0;
}

void many_free(struct many *many)
{
	if (many)
		copies_forget(many);
	free(many);
}

static bool is_unicast(const uint8_t mac[6])
{
	return !(mac[0] & 1);
}

static int port_add(struct destination *destination, uint32_t link_index)
{
	struct many *many = destination->many;
	struct loop_route *route = &many->copies[many->count].route;

	if (many->count == LOOP_COPIES_MAX)
		return -ENOBUFS;
	*route = destination->route;
	route->bridge_link_index = link_index;
	many->copies[many->count++].outer = NULL;
	return 0;
}

static int peer_add(struct destination *destination, const struct peer *peer)
{
	struct many *many = destination->many;
	struct loop_route *route = &many->copies[many->count].route;
	struct neighbor *outer = NULL;
	int err;

	if (many->count == LOOP_COPIES_MAX)
		return -ENOBUFS;
	*route = destination->route;
	err = way_tunnel_find(destination->node, peer->address_be, &route->tunnel, &outer);
	/* A peer that the node has no route to gets nothing; the others do. */
	if (err)
		return err == -ENOMEM ? err : 0;
	many->copies[many->count++].outer = outer;
	return 0;
}

static void port_look(const struct rtnl_link *link, void *context)
{
	struct ports_search *search = context;
	const struct many *many = search->destination->many;

	if (search->err || !link->up || link->master_index != (int)many->bridge_link_index)
		return;
	if (link->tunnel)
		search->tunnel_link_index = link->index;
	else if (many->ports && link->index != (int)many->sender_link_index)
		search->err = port_add(search->destination, (uint32_t)link->index);
}

/* The one node behind which an entry for good says that the hardware address is; NULL when none does. */
static const struct peer *peer_of_mac(const struct destination *destination, int tunnel_link_index)
{
	const struct node *node = destination->node;
	const struct peer *peer = node->peers;
	struct ktsn_address remote;

	if (!tunnel_link_index || !is_unicast(destination->route.path.destination_mac) ||
	    rtnl_tunnel_find(node->own_ns->rtnl, tunnel_link_index, destination->route.path.destination_mac,
			     &remote))
		return NULL;
	while (peer && (peer->vni != destination->vni || !ktsn_address_is_ipv4(&remote) ||
			peer->address_be != ktsn_address_ipv4_be(&remote)))
		peer = peer->next;
	return peer;
}

static int copies_fill(struct destination *destination)
{
	struct ports_search search = {.destination = destination};
	const struct node *node = destination->node;
	const struct peer *only;

	if (destination->many->bridge_link_index) {
		int err = rtnl_links_each(node->own_ns->rtnl, port_look, &search);

		if (err || search.err)
			return err ? err : search.err;
	}
	only = peer_of_mac(destination, search.tunnel_link_index);
	if (only) {
		copies_forget(destination->many);
		return peer_add(destination, only);
	}
	for (const struct peer *peer = node->peers; peer && !search.err; peer = peer->next)
		if (peer->vni == destination->vni)
			search.err = peer_add(destination, peer);
	return search.err;
}

int many_find(struct destination *destination, const struct endpoint *sender)
{
	struct many *many = destination->many;

	if (!many) {
		many = destination->many = calloc(1, sizeof(*many));
		if (!many)
			return -ENOMEM;
		many->ports = !destination->inner;
		many->bridge_link_index = sender->bridge_link_index;
		many->sender_link_index = sender->port_link_index;
	}
	return copies_fill(destination);
}

void many_refind(struct destination *destination)
{
	struct many *many = destination->many;
	struct neighbor *before[LOOP_COPIES_MAX];
	uint32_t count = many->count;
	int err;

	/* Given back last, so that those who stay are not looked for anew. */
	for (uint32_t i = 0; i < count; i++)
		before[i] = many->copies[i].outer;
	many->count = 0;
	err = copies_fill(destination);
	if (err)
		log_warning("a destination of pod %s does not reach all of network %u: %s",
			    destination->process->identity, destination->vni,
			    err == -ENOBUFS ? "no message has more copies" : strerror(-err));
	for (uint32_t i = 0; i < count; i++)
		neighbor_put(before[i]);
}

bool many_has(const struct many *many, const struct neighbor *neighbor)
{
	for (uint32_t i = 0; i < many->count; i++)
		if (many->copies[i].outer == neighbor)
			return true;
	return false;
}

/* One that did not answer is not waited for again: the others' messages must not wait for a dead node. */
static enum loop_destination_state copy_state(const struct neighbor *outer)
{
	if (!outer || outer->entry.state == NEIGHBOR_VALID)
		return DESTINATION_RESOLVED;
	return outer->failed || outer->entry.state == NEIGHBOR_FAILED ? DESTINATION_UNREACHABLE
								      : DESTINATION_RESOLVING;
}

enum loop_destination_state many_apply(struct destination *destination)
{
	enum loop_destination_state all = DESTINATION_UNREACHABLE;
	struct many *many = destination->many;

	for (uint32_t i = 0; i < many->count; i++) {
		struct loop_route *route = &many->copies[i].route;
		const struct neighbor *outer = many->copies[i].outer;

		route->state = copy_state(outer);
		memcpy(route->path.destination_mac, destination->route.path.destination_mac, 6);
		if (outer)
			memcpy(route->tunnel.outer.destination_mac, outer->entry.mac, 6);
		if (route->state == DESTINATION_RESOLVING)
			all = DESTINATION_RESOLVING;
		else if (route->state == DESTINATION_RESOLVED && all != DESTINATION_RESOLVING)
			all = DESTINATION_RESOLVED;
	}
	return all;
}

struct loop_copies *many_copies(const struct destination *destination)
{
	const struct many *many = destination->many;
	struct loop_copies *copies = calloc(1, sizeof(*copies) + many->count * sizeof(copies->routes[0]));

	if (!copies)
		return NULL;
	copies->object = (struct loop_object){.kind = LOOP_COPIES, .owner = copies};
	for (uint32_t i = 0; i < many->count; i++)
		if (many->copies[i].route.state == DESTINATION_RESOLVED)
			copies->routes[copies->count++] = many->copies[i].route;
	return copies;
}
