/* SPDX-License-Identifier: Apache-2.0 */
#include "replication_lists.h"

#include "bridge_ports.h"
#include "endpoint_admission.h"
#include "forwarding.h"
#include "groups.h"
#include "peers.h"
#include "tunnels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct replication_list {
	bool ports;                    /* ports of this node's bridge are receivers too */
	uint32_t bridge_link_index;    /* of the sender; 0: none */
	uint32_t sender_link_index;    /* of the sender's port */
	struct forwarding_watch watch; /* of the receiver's hardware address */
	bool single;                   /* the place of that address is known: it is the only receiver */
	enum loop_destination_state state;
	uint32_t pruned;   /* receivers without a member of the group */
	uint32_t left_out; /* receivers beyond LOOP_COPIES_MAX */
	uint32_t count, room;
	struct loop_copy *copies; /* to receivers that can be reached now */
};

void replication_free(struct routing *routing, struct replication_list *list)
{
	static const uint8_t none[6];

	if (!list)
		return;
	forwarding_watch_set(routing, &list->watch, 0, 0, none);
	free(list->copies);
	free(list);
}

/* ---- Receivers ---- */

static int room_make(struct replication_list *list)
{
	uint32_t room = list->room ? 2 * list->room : 16;
	struct loop_copy *grown;

	if (list->count < list->room)
		return 0;
	grown = realloc(list->copies, room * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	list->copies = grown;
	list->room = room;
	return 0;
}

static int copy_add(struct replication_list *list, const struct loop_copy *copy)
{
	int err = room_make(list);

	if (err)
		return err;
	if (list->count == LOOP_COPIES_MAX)
		list->left_out++;
	else
		list->copies[list->count++] = *copy;
	return 0;
}

/* Updates the state of the list after a receiver was found in a state. */
static void state_update(struct replication_list *list, enum loop_destination_state state)
{
	if (state == DESTINATION_RESOLVING ||
	    (state == DESTINATION_RESOLVED && list->state != DESTINATION_RESOLVING))
		list->state = state;
}

static int port_add(struct replication_list *list, uint32_t link_index)
{
	state_update(list, DESTINATION_RESOLVED);
	return copy_add(list, &(struct loop_copy){.bridge_link_index = link_index});
}

/* Do not wait again for a peer that did not answer: messages to the others must not wait for a dead node. */
static enum loop_destination_state next_hop_state(const struct neighbor *next_hop)
{
	if (next_hop->entry.state == NEIGHBOR_VALID)
		return DESTINATION_RESOLVED;
	return next_hop->failed || next_hop->entry.state == NEIGHBOR_FAILED ? DESTINATION_UNREACHABLE
									    : DESTINATION_RESOLVING;
}

static int peer_add(struct route *route, struct peer *peer)
{
	struct replication_list *list = route->replication;
	const struct neighbor *next_hop = tunnel_next_hop(route->routing, peer);
	struct loop_copy copy = {.remote_be = peer->address_be};
	enum loop_destination_state state;

	/* A peer that the node has no route to gets nothing; the others do. */
	if (!next_hop)
		return 0;
	state = next_hop_state(next_hop);
	state_update(list, state);
	if (state != DESTINATION_RESOLVED)
		return 0;
	memcpy(copy.underlay_next_hop, next_hop->entry.mac, sizeof(copy.underlay_next_hop));
	if (peer->route_mtu_bytes &&
	    (!route->underlay_mtu_bytes || peer->route_mtu_bytes < route->underlay_mtu_bytes))
		route->underlay_mtu_bytes = peer->route_mtu_bytes;
	return copy_add(list, &copy);
}

/* Returns the group that receivers must be members of, or NULL. */
static const struct ktsn_address *group_of(const struct route *route)
{
	return ktsn_address_is_any(&route->group) ? NULL : &route->group;
}

static bool on_bridge(const struct replication_list *list, const struct bridge_port *port)
{
	return list->bridge_link_index && port->bridge_link_index == (int)list->bridge_link_index;
}

/* Whether messages may go out of a port of the sender's bridge. */
static bool port_eligible(const struct replication_list *list, const struct bridge_port *port)
{
	return list->ports && !port->tunnel && port->link_index != (int)list->sender_link_index;
}

static bool port_receives(struct route *route, const struct bridge_port *port)
{
	struct replication_list *list = route->replication;

	if (!port_eligible(list, port))
		return false;
	if (groups_port_wants(route->routing->groups, port, group_of(route)))
		return true;
	list->pruned++;
	return false;
}

/* Adds the ports of the sender's bridge. */
static int ports_add(struct route *route)
{
	struct replication_list *list = route->replication;
	const struct bridge_ports *ports = &route->routing->ports;
	int err = 0;

	for (uint32_t i = 0; i < ports->count && !err; i++) {
		const struct bridge_port *port = &ports->entries[i];

		if (on_bridge(list, port) && port_receives(route, port))
			err = port_add(list, (uint32_t)port->link_index);
	}
	return err;
}

static int peers_add(struct route *route)
{
	const struct peer_network *network = peer_network_find(route->routing, route->vni);
	int err = 0;

	for (struct peer *peer = network ? network->peers : NULL; peer && !err;
	     peer = peer->next_in_network) {
		if (groups_peer_wants(route->routing->groups, peer, group_of(route)))
			err = peer_add(route, peer);
		else
			route->replication->pruned++;
	}
	return err;
}

/* Adds one peer or one port for a group without members. Its messages end there, as at a switch, and so leave
 * at their time and are counted like others. */
static int fallback_add(struct route *route)
{
	const struct peer_network *network = peer_network_find(route->routing, route->vni);
	struct replication_list *list = route->replication;
	const struct bridge_ports *ports = &route->routing->ports;

	for (struct peer *peer = network ? network->peers : NULL;
	     peer && list->state == DESTINATION_UNREACHABLE; peer = peer->next_in_network) {
		int err = peer_add(route, peer);

		if (err)
			return err;
	}
	for (uint32_t i = 0; i < ports->count && list->state == DESTINATION_UNREACHABLE; i++) {
		const struct bridge_port *port = &ports->entries[i];

		if (on_bridge(list, port) && port_eligible(list, port))
			return port_add(list, (uint32_t)port->link_index);
	}
	return 0;
}

/* ---- The place of a hardware address ---- */

static int tunnel_of_bridge(const struct route *route)
{
	const struct bridge_ports *ports = &route->routing->ports;

	for (uint32_t i = 0; i < ports->count; i++)
		if (ports->entries[i].tunnel && on_bridge(route->replication, &ports->entries[i]))
			return ports->entries[i].link_index;
	return 0;
}

static bool port_single(const struct route *route, int link_index)
{
	const struct bridge_ports *ports = &route->routing->ports;

	for (uint32_t i = 0; i < ports->count; i++)
		if (ports->entries[i].link_index == link_index)
			return on_bridge(route->replication, &ports->entries[i]) &&
			       port_eligible(route->replication, &ports->entries[i]);
	return false;
}

/* The place of a local endpoint takes precedence over what the kernel has learnt. */
static struct forwarding_place place_find(struct route *route)
{
	struct replication_list *list = route->replication;
	const uint8_t *mac = route->frames.path.destination_mac;
	const struct endpoint *local = endpoint_of_mac(route->routing, route->vni, mac);
	struct forwarding_place learnt;

	forwarding_watch_set(route->routing, &list->watch, (int)list->bridge_link_index,
			     tunnel_of_bridge(route), mac);
	learnt = forwarding_find(route->routing, &list->watch);
	if (local && local->bridge_link_index == list->bridge_link_index)
		return (struct forwarding_place){.port_link_index = (int)local->port_link_index};
	return learnt;
}

/* Adds the only receiver, if its place is known. Returns 1 if so; 0; or -errno. */
static int single_add(struct route *route)
{
	struct replication_list *list = route->replication;
	struct forwarding_place place;
	struct peer *peer;
	int err;

	if (!mac_is_unicast(route->frames.path.destination_mac))
		return 0;
	place = place_find(route);
	peer = place.remote_be ? peer_find(route->routing, route->vni, place.remote_be) : NULL;
	list->single = peer || (place.port_link_index && port_single(route, place.port_link_index));
	if (!list->single)
		return 0;
	err = peer ? peer_add(route, peer) : port_add(list, (uint32_t)place.port_link_index);
	return err ? err : 1;
}

/* ---- Lists ---- */

static void list_clear(struct replication_list *list)
{
	list->single = false;
	list->state = DESTINATION_UNREACHABLE;
	list->pruned = 0;
	list->left_out = 0;
	list->count = 0;
}

static int copies_fill(struct route *route)
{
	struct replication_list *list = route->replication;
	bool switched = route->routing->uplink.switched;
	int err;

	list_clear(list);
	route->underlay_mtu_bytes = 0;
	err = switched ? 0 : single_add(route);
	if (err)
		return err < 0 ? err : 0;
	err = ports_add(route);
	if (err)
		return err;
	if (switched)
		return port_add(list, 0); /* one for all other nodes, which the switch copies */
	err = peers_add(route);
	return err || list->count || !list->pruned ? err : fallback_add(route);
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
	/* Changes after this are reported. */
	if (!route->routing->ports.read)
		(void)bridge_ports_read(route->routing);
	return copies_fill(route);
}

void replication_bridge_set(struct route *route, const struct endpoint *sender)
{
	route->replication->bridge_link_index = sender->bridge_link_index;
}

static bool lists_equal(const struct replication_list *a, const struct replication_list *b)
{
	return a->single == b->single && a->state == b->state && a->pruned == b->pruned &&
	       a->left_out == b->left_out && a->count == b->count &&
	       (!a->count || memcmp(a->copies, b->copies, a->count * sizeof(a->copies[0])) == 0);
}

int replication_refind(struct route *route)
{
	struct replication_list *list = route->replication, before = *list;
	uint32_t mtu_bytes = route->underlay_mtu_bytes;
	int err;

	list->copies = NULL;
	list->room = 0;
	err = copies_fill(route);
	before.watch = list->watch;
	if (err) {
		free(list->copies);
		*list = before;
		route->underlay_mtu_bytes = mtu_bytes;
		return err;
	}
	err = !lists_equal(list, &before) || route->underlay_mtu_bytes != mtu_bytes;
	free(before.copies);
	return err;
}

bool replication_outdated(const struct route *route)
{
	const struct forwarding_watch *watch = &route->replication->watch;
	const uint8_t *mac = route->frames.path.destination_mac;

	if (route->routing->uplink.switched || !mac_is_unicast(mac))
		return false;
	return memcmp(watch->mac, mac, sizeof(watch->mac)) != 0 ||
	       forwarding_watch_changed(route->routing, watch);
}

enum loop_destination_state replication_state(const struct route *route)
{
	return route->replication->state;
}

uint32_t replication_left_out(const struct route *route)
{
	return route->replication->left_out;
}

struct loop_replication *replication_copies(const struct route *route)
{
	const struct replication_list *list = route->replication;
	struct loop_replication *copies =
		calloc(1, sizeof(*copies) + list->count * sizeof(copies->copies[0]));

	if (!copies)
		return NULL;
	copies->object = (struct loop_object){.kind = LOOP_REPLICATION, .owner = copies};
	copies->pruned = list->pruned;
	copies->left_out = list->left_out;
	copies->single = list->single;
	copies->count = list->count;
	copies->common = route->frames;
	if (list->count)
		memcpy(copies->copies, list->copies, list->count * sizeof(copies->copies[0]));
	return copies;
}
