/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that sockets send to, from the first message to the last. Where their frames go is found out in ways.c,
 * and for those that go to several in copies.c.
 */
#include "node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of the neighbours of one that goes to one. */
static enum loop_destination_state state_of_one(const struct destination *destination)
{
	enum rtnl_neighbor_state outer =
		destination->outer ? destination->outer->entry.state : NEIGHBOR_VALID;

	if (outer == NEIGHBOR_VALID)
		return DESTINATION_RESOLVED;
	return outer == NEIGHBOR_FAILED ? DESTINATION_UNREACHABLE : DESTINATION_RESOLVING;
}

/* Copies what the neighbours say into the route. */
static void neighbors_apply(struct destination *destination)
{
	struct loop_route *route = &destination->route;
	/* A pod of this node is on the sender's own link, and without IP there is nothing to ask for. */
	enum rtnl_neighbor_state inner =
		destination->inner ? destination->inner->entry.state : NEIGHBOR_VALID;

	if (destination->inner)
		memcpy(route->path.destination_mac, destination->inner->entry.mac, 6);
	if (destination->outer)
		memcpy(route->tunnel.outer.destination_mac, destination->outer->entry.mac, 6);
	route->state = destination->many ? many_apply(destination) : state_of_one(destination);
	if (inner == NEIGHBOR_FAILED)
		route->state = DESTINATION_UNREACHABLE;
	else if (inner != NEIGHBOR_VALID && route->state == DESTINATION_RESOLVED)
		route->state = DESTINATION_RESOLVING;
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
	neighbor_tie(destination->inner, &destination->inner_tie, destination);
	neighbor_tie(destination->outer, &destination->outer_tie, destination);
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
	many_free(destination->many);
	if (destination->loop)
		free(destination->loop->copies);
	free(destination->loop);
	free(destination);
}

/* The priority that the kernel gives to a message of that TOS (rt_tos2priority). */
static uint8_t priority_of_tos(uint8_t tos)
{
	static const uint8_t by_tos[16] = {0, 0, 0, 0, 2, 2, 2, 2, 6, 6, 6, 6, 4, 4, 4, 4};

	return by_tos[tos >> 1 & 0xf];
}

/* SO_PRIORITY & 15, of the message or of its socket. A message's IP_TOS brings one along, IPV6_TCLASS does not. */
static uint8_t priority_of(const struct destination *destination, const struct socket_manner *manner)
{
	const struct ktsn_app_key *key = &destination->key;

	if (key->carries & KTSN_APP_CARRIES_PRIORITY)
		return (uint8_t)(key->priority % LOOP_PRIORITIES);
	if (key->carries & KTSN_APP_CARRIES_TOS && destination->route.path.kind == KTSN_FRAME_IPV4)
		return priority_of_tos(key->tos);
	return manner->priority;
}

/* What the loop sees of it. */
static int loop_destination_make(struct destination *destination, const struct flow *flow)
{
	struct loop_destination *loop = destination->loop;

	neighbors_apply(destination);
	loop->object = (struct loop_object){.kind = LOOP_DESTINATION, .owner = destination};
	loop->flow = flow->loop;
	loop->ring = flow->process->ring;
	loop->priority = priority_of(destination, &flow->manner);
	if (!destination->many)
		return 0;
	loop->copies = many_copies(destination);
	return loop->copies ? 0 : -ENOMEM;
}

/* One that names no address is for where the socket is connected now. */
static void key_complete(struct ktsn_app_key *key, const struct socket_manner *manner)
{
	const struct socket_end *remote = &manner->remote;

	if (key->family != AF_UNSPEC || !remote->port_be)
		return;
	key->family = ktsn_address_family(&remote->address);
	key->port_be = remote->port_be;
	if (!key->interface)
		key->interface = remote->interface;
	memset(key->address, 0, sizeof(key->address));
	if (key->family == AF_INET)
		memcpy(key->address, remote->address.bytes + 12, 4);
	else
		memcpy(key->address, remote->address.bytes, sizeof(key->address));
}

int destination_create(struct flow *flow, const struct ktsn_app_key *key, uint32_t number,
		       struct destination **created)
{
	struct process *process = flow->process;
	struct destination *destination = calloc(1, sizeof(*destination));
	int result = -ENOMEM;

	*created = NULL;
	if (!destination)
		return -ENOMEM;
	destination->node = process->pod->node;
	destination->key = *key;
	key_complete(&destination->key, &flow->manner);
	destination->process = process;
	destination->loop = calloc(1, sizeof(*destination->loop));
	if (destination->loop)
		result = destination_number_free(process, number, &destination->index);
	if (result == 0)
		result = way_find(destination, flow);
	if (result == 0)
		result = loop_destination_make(destination, flow);
	if (result != 0) {
		destination_discard(destination);
		return result < 0 ? result : 0;
	}
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
	neighbor_untie(&destination->inner_tie);
	neighbor_untie(&destination->outer_tie);
	if (destination->many)
		many_untie(destination->many);
}

void destination_free(struct destination *destination)
{
	destination_detach(destination);
	destination->process->destinations[destination->index] = NULL;
	destination_discard(destination);
}

static void destination_tell(struct destination *destination)
{
	struct loop_command command = {.type = COMMAND_DESTINATION_UPDATE,
				       .destination = destination->loop,
				       .route = destination->route};

	/* Without memory the loop keeps those that it has, which may be out of date until the next change. */
	if (destination->many)
		command.copies = many_copies(destination);
	loop_command(destination->node->loop, &command);
}

static void destination_end(struct destination *destination)
{
	destination->route.state = DESTINATION_CLOSED;
	destination_tell(destination);
}

void destinations_neighbor_changed(const struct neighbor *neighbor)
{
	for (const struct neighbor_tie *tie = neighbor->ties; tie; tie = tie->next) {
		struct destination *destination = tie->destination;
		struct loop_route before = destination->route;

		if (before.state == DESTINATION_CLOSED)
			continue;
		neighbors_apply(destination);
		if (destination->many || memcmp(&before, &destination->route, sizeof(before)) != 0)
			destination_tell(destination);
	}
}

/* Where a destination's traffic goes follows the peers; one that no peer serves any more is closed. */
static void destination_follow_peers(struct destination *destination)
{
	struct neighbor *before = destination->outer;

	destination->outer = NULL;
	if (way_outer_find(destination)) {
		destination->outer = before;
		destination_end(destination);
		return;
	}
	neighbor_untie(&destination->outer_tie);
	neighbor_tie(destination->outer, &destination->outer_tie, destination);
	neighbor_put(before);
	neighbors_apply(destination);
	destination_tell(destination);
}

static void destination_follow(struct destination *destination)
{
	many_refind(destination);
	neighbors_apply(destination);
	destination_tell(destination);
}

void destinations_peers_changed(struct node *node, uint32_t vni)
{
	for (struct destination *d = node->destinations; d; d = d->next) {
		if (d->vni != vni || d->endpoint_gone || d->here)
			continue;
		if (d->many)
			destination_follow(d);
		else
			destination_follow_peers(d);
	}
}

void destinations_ports_changed(struct node *node)
{
	/* Most changes of links are none of ports: a pod that switches its interface on and off makes as many as it
	 * likes. */
	if (!node_ports_read(node))
		return;
	for (struct destination *d = node->destinations; d; d = d->next)
		if (d->many && !d->endpoint_gone)
			destination_follow(d);
}

void destinations_mtus_changed(struct node *node)
{
	for (struct destination *d = node->destinations; d; d = d->next) {
		const struct endpoint *sender =
			d->endpoint_gone ? NULL : node_endpoint_at(node, d->ns, d->link_index);
		uint32_t before = d->route.payload_max_bytes;

		if (!sender || d->route.state == DESTINATION_CLOSED)
			continue;
		way_payload_max_find(d, sender);
		if (d->route.payload_max_bytes != before)
			destination_tell(d);
	}
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
