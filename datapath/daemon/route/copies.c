/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Destinations that are several: groups, broadcast, and frames to a hardware address of which nobody knows where
 * it is. One copy goes to each peer of the network, and one out of each port of its bridge on this node but the
 * sender's own and the tunnel's: onto the bridge itself it would also go into the kernel's tunnel, and arrive
 * twice. Who they are follows peers and ports. Where a switch of this node does the tunnelling, it makes the peers'
 * copies too: it gets one.
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
		struct neighbor *outer;  /* NULL: out of a port of this node */
		struct neighbor_tie tie; /* of the first that has that neighbour */
	} copies[LOOP_COPIES_MAX];
};

struct bridge_port {
	int link_index;
	int bridge_link_index;
	bool tunnel;
};

/* Ports that are being read. */
struct ports_reading {
	struct bridge_port *ports;
	uint32_t count, room;
	bool failed;
};

static bool ports_grow(struct ports_reading *reading)
{
	uint32_t room = reading->room ? 2 * reading->room : 64;
	struct bridge_port *grown = realloc(reading->ports, room * sizeof(*grown));

	if (!grown)
		return false;
	reading->ports = grown;
	reading->room = room;
	return true;
}

static void port_note(const struct rtnl_link *link, void *context)
{
	struct ports_reading *reading = context;

	if (!link->master_index || !link->up || reading->failed)
		return;
	if (reading->count == reading->room && !ports_grow(reading)) {
		reading->failed = true;
		return;
	}
	reading->ports[reading->count++] = (struct bridge_port){
		.link_index = link->index, .bridge_link_index = link->master_index, .tunnel = link->tunnel};
}

static bool ports_equal(const struct node *node, const struct ports_reading *reading)
{
	if (reading->count != node->port_count)
		return false;
	for (uint32_t i = 0; i < reading->count; i++) {
		const struct bridge_port *a = &reading->ports[i], *b = &node->ports[i];

		if (a->link_index != b->link_index || a->bridge_link_index != b->bridge_link_index ||
		    a->tunnel != b->tunnel)
			return false;
	}
	return true;
}

bool node_ports_read(struct node *node)
{
	struct ports_reading reading = {.count = 0};

	if (rtnl_links_each(node->own_ns->rtnl, port_note, &reading) || reading.failed ||
	    ports_equal(node, &reading)) {
		free(reading.ports);
		return false;
	}
	free(node->ports);
	node->ports = reading.ports;
	node->port_count = reading.count;
	return true;
}

void many_untie(struct many *many)
{
	for (uint32_t i = 0; i < many->count; i++)
		neighbor_untie(&many->copies[i].tie);
}

static void copies_forget(struct many *many)
{
	many_untie(many);
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

/* One for all other nodes, which the switch copies. */
static int switch_add(struct destination *destination)
{
	return port_add(destination, 0);
}

static bool many_has(const struct many *many, const struct neighbor *neighbor)
{
	for (uint32_t i = 0; i < many->count; i++)
		if (many->copies[i].outer == neighbor)
			return true;
	return false;
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
	if (!many_has(many, outer))
		neighbor_tie(outer, &many->copies[many->count].tie, destination);
	many->copies[many->count++].outer = outer;
	return 0;
}

/* Out of each port of the sender's bridge, if they are wanted. The index of its tunnel, 0: it has none; or -errno. */
static int ports_add(struct destination *destination)
{
	const struct many *many = destination->many;
	const struct node *node = destination->node;
	int tunnel_link_index = 0;

	for (uint32_t i = 0; i < node->port_count; i++) {
		const struct bridge_port *port = &node->ports[i];
		int err = 0;

		if (port->bridge_link_index != (int)many->bridge_link_index)
			continue;
		if (port->tunnel)
			tunnel_link_index = port->link_index;
		else if (many->ports && port->link_index != (int)many->sender_link_index)
			err = port_add(destination, (uint32_t)port->link_index);
		if (err)
			return err;
	}
	return tunnel_link_index;
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
	const struct node *node = destination->node;
	int tunnel_link_index = ports_add(destination);
	const struct peer *only;
	int err = 0;

	if (tunnel_link_index < 0)
		return tunnel_link_index;
	if (node->uplink.switched)
		return switch_add(destination);
	only = peer_of_mac(destination, tunnel_link_index);
	if (only) {
		copies_forget(destination->many);
		return peer_add(destination, only);
	}
	for (const struct peer *peer = node->peers; peer && !err; peer = peer->next)
		if (peer->vni == destination->vni)
			err = peer_add(destination, peer);
	return err;
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
	/* What changed since is heard of. */
	if (!destination->node->ports)
		(void)node_ports_read(destination->node);
	return copies_fill(destination);
}

void many_refind(struct destination *destination)
{
	const struct pod *pod = destination->process->pod;
	struct many *many = destination->many;
	struct neighbor *before[LOOP_COPIES_MAX];
	uint32_t count = many->count;
	int err;

	many_untie(many);
	/* Given back last, so that those who stay are not looked for anew. */
	for (uint32_t i = 0; i < count; i++)
		before[i] = many->copies[i].outer;
	many->count = 0;
	err = copies_fill(destination);
	if (err)
		log_warning("a destination of pod %s does not reach all of network %u: %s",
			    pod ? pod->called : destination->process->identity, destination->vni,
			    err == -ENOBUFS ? "no message has more copies" : strerror(-err));
	for (uint32_t i = 0; i < count; i++)
		neighbor_put(before[i]);
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

struct loop_replication *many_copies(const struct destination *destination)
{
	const struct many *many = destination->many;
	struct loop_replication *copies =
		calloc(1, sizeof(*copies) + many->count * sizeof(copies->routes[0]));

	if (!copies)
		return NULL;
	copies->object = (struct loop_object){.kind = LOOP_REPLICATION, .owner = copies};
	for (uint32_t i = 0; i < many->count; i++)
		if (many->copies[i].route.state == DESTINATION_RESOLVED)
			copies->routes[copies->count++] = many->copies[i].route;
	return copies;
}
