/* SPDX-License-Identifier: Apache-2.0 */
#include "replication_lists.h"

#include "bridge_ports.h"
#include "peers.h"
#include "tunnels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct replication_list {
	bool ports;                 /* also out of this node's */
	uint32_t bridge_link_index; /* of the sender; 0: none */
	uint32_t sender_link_index; /* of the sender's port */
	uint32_t count;
	struct {
		struct loop_route route;
		struct neighbor *underlay_next_hop; /* NULL: out of a port of this node */
		struct neighbor_observer observer;  /* of the first that has that neighbour */
	} copies[LOOP_COPIES_MAX];
};

void replication_observe_end(struct replication_list *list)
{
	for (uint32_t i = 0; list && i < list->count; i++)
		neighbor_observer_remove(&list->copies[i].observer);
}

static void copies_forget(struct replication_list *list)
{
	replication_observe_end(list);
	for (uint32_t i = 0; i < list->count; i++)
		neighbor_put(list->copies[i].underlay_next_hop);
	list->count = 0;
}

void replication_free(struct replication_list *list)
{
	if (list)
		copies_forget(list);
	free(list);
}

static int port_add(struct route *route, uint32_t link_index)
{
	struct replication_list *list = route->replication;
	struct loop_route *copy = &list->copies[list->count].route;

	if (list->count == LOOP_COPIES_MAX)
		return -ENOBUFS;
	*copy = route->frames;
	copy->bridge_link_index = link_index;
	list->copies[list->count++].underlay_next_hop = NULL;
	return 0;
}

static bool list_has(const struct replication_list *list, const struct neighbor *neighbor)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (list->copies[i].underlay_next_hop == neighbor)
			return true;
	return false;
}

static int peer_add(struct route *route, const struct peer *peer)
{
	struct replication_list *list = route->replication;
	struct loop_route *copy = &list->copies[list->count].route;
	struct neighbor *next_hop = NULL;
	int err;

	if (list->count == LOOP_COPIES_MAX)
		return -ENOBUFS;
	*copy = route->frames;
	err = tunnel_find(route->routing, peer->address_be, &copy->tunnel, &next_hop);
	/* A peer that the node has no route to gets nothing; the others do. */
	if (err)
		return err == -ENOMEM ? err : 0;
	if (!list_has(list, next_hop))
		neighbor_observer_add(next_hop, &list->copies[list->count].observer, route->changed,
				      route->owner);
	list->copies[list->count++].underlay_next_hop = next_hop;
	return 0;
}

/* Out of each port of the sender's bridge, if they are wanted. The index of its tunnel, 0: it has none; or
 * -errno. */
static int ports_add(struct route *route)
{
	const struct replication_list *list = route->replication;
	const struct bridge_ports *ports = &route->routing->ports;
	int tunnel_link_index = 0;

	for (uint32_t i = 0; i < ports->count; i++) {
		const struct bridge_port *port = &ports->entries[i];
		int err = 0;

		if (port->bridge_link_index != (int)list->bridge_link_index)
			continue;
		if (port->tunnel)
			tunnel_link_index = port->link_index;
		else if (list->ports && port->link_index != (int)list->sender_link_index)
			err = port_add(route, (uint32_t)port->link_index);
		if (err)
			return err;
	}
	return tunnel_link_index;
}

/* The one node behind which an entry for good says that the hardware address is; NULL when none does. */
static const struct peer *peer_of_mac(const struct route *route, int tunnel_link_index)
{
	const struct routing *routing = route->routing;
	const uint8_t *mac = route->frames.path.destination_mac;
	struct ktsn_address remote;

	/* A group is behind no single node. */
	if (!tunnel_link_index || mac[0] & 1 ||
	    rtnl_tunnel_find(routing->own_ns->rtnl, tunnel_link_index, mac, &remote) ||
	    !ktsn_address_is_ipv4(&remote))
		return NULL;
	return peer_find(routing, route->vni, ktsn_address_ipv4_be(&remote));
}

static int copies_fill(struct route *route)
{
	const struct routing *routing = route->routing;
	int tunnel_link_index = ports_add(route);
	const struct peer *only;
	int err = 0;

	if (tunnel_link_index < 0)
		return tunnel_link_index;
	if (routing->uplink.switched)
		return port_add(route, 0); /* one for all other nodes, which the switch copies */
	only = peer_of_mac(route, tunnel_link_index);
	if (only) {
		copies_forget(route->replication);
		return peer_add(route, only);
	}
	for (const struct peer *peer = routing->peers; peer && !err; peer = peer->next)
		if (peer->vni == route->vni)
			err = peer_add(route, peer);
	return err;
}

int replication_find(struct route *route, const struct endpoint *sender)
{
	struct replication_list *list = calloc(1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	list->ports = !route->next_hop;
	list->bridge_link_index = sender->bridge_link_index;
	list->sender_link_index = sender->port_link_index;
	route->replication = list;
	/* What changed since is heard of. */
	if (!route->routing->ports.entries)
		(void)bridge_ports_read(route->routing);
	return copies_fill(route);
}

int replication_refind(struct route *route)
{
	struct replication_list *list = route->replication;
	struct neighbor *before[LOOP_COPIES_MAX];
	uint32_t count = list->count;
	int err;

	replication_observe_end(list);
	/* Given back last, so that those who stay are not looked for anew. */
	for (uint32_t i = 0; i < count; i++)
		before[i] = list->copies[i].underlay_next_hop;
	list->count = 0;
	err = copies_fill(route);
	for (uint32_t i = 0; i < count; i++)
		neighbor_put(before[i]);
	return err;
}

/* One that did not answer is not waited for again: the others' messages must not wait for a dead node. */
static enum loop_destination_state copy_state(const struct neighbor *next_hop)
{
	if (!next_hop || next_hop->entry.state == NEIGHBOR_VALID)
		return DESTINATION_RESOLVED;
	return next_hop->failed || next_hop->entry.state == NEIGHBOR_FAILED ? DESTINATION_UNREACHABLE
									    : DESTINATION_RESOLVING;
}

enum loop_destination_state replication_apply(struct route *route)
{
	enum loop_destination_state all = DESTINATION_UNREACHABLE;
	struct replication_list *list = route->replication;

	for (uint32_t i = 0; i < list->count; i++) {
		struct loop_route *copy = &list->copies[i].route;
		const struct neighbor *next_hop = list->copies[i].underlay_next_hop;

		copy->state = copy_state(next_hop);
		memcpy(copy->path.destination_mac, route->frames.path.destination_mac, 6);
		if (next_hop)
			memcpy(copy->tunnel.outer.destination_mac, next_hop->entry.mac, 6);
		if (copy->state == DESTINATION_RESOLVING)
			all = DESTINATION_RESOLVING;
		else if (copy->state == DESTINATION_RESOLVED && all != DESTINATION_RESOLVING)
			all = DESTINATION_RESOLVED;
	}
	return all;
}

struct loop_replication *replication_copies(const struct route *route)
{
	const struct replication_list *list = route->replication;
	struct loop_replication *copies =
		calloc(1, sizeof(*copies) + list->count * sizeof(copies->routes[0]));

	if (!copies)
		return NULL;
	copies->object = (struct loop_object){.kind = LOOP_REPLICATION, .owner = copies};
	for (uint32_t i = 0; i < list->count; i++)
		if (list->copies[i].route.state == DESTINATION_RESOLVED)
			copies->routes[copies->count++] = list->copies[i].route;
	return copies;
}
