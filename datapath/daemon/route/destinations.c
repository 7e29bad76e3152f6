/* SPDX-License-Identifier: Apache-2.0 */
#include "destinations.h"

#include "attachments.h"
#include "clock.h"
#include "commands.h"
#include "encryption.h"
#include "log.h"
#include "peers.h"
#include "replication_lists.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static_assert(SOCKET_PRIORITIES == (int)LOOP_PRIORITIES, "a destination has its socket's priority");

/* Returns the requested number if it is free, else any free one. */
static int destination_number_free(struct destination_table *table, uint32_t wanted, uint32_t *index)
{
	if (wanted != KTSN_APP_NONE) {
		*index = wanted;
		return wanted < LOOP_DESTINATIONS_PER_RING && !table->entries[wanted] ? 0 : -EINVAL;
	}
	for (uint32_t tried = 0; tried < LOOP_DESTINATIONS_PER_RING; tried++) {
		uint32_t i = table->hint++ % LOOP_DESTINATIONS_PER_RING;

		if (!table->entries[i]) {
			*index = i;
			return 0;
		}
	}
	return -ENOBUFS;
}

/* Sends the present route of a destination to the loop. */
static void destination_publish(const struct destination *destination)
{
	struct loop_command command = {.type = COMMAND_DESTINATION_UPDATE,
				       .destination = destination->loop,
				       .route = destination->route.frames};

	/* Without memory the loop keeps the previous list, which may be out of date until the next change. */
	if (destination->route.replication)
		command.replication = replication_copies(&destination->route);
	loop_command(destination->route.routing->loop, &command);
}

/* A neighbour of the route has changed. */
static void neighbor_changed(void *owner)
{
	struct destination *destination = owner;
	struct route *route = &destination->route;
	struct loop_route before = route->frames;

	if (before.state == DESTINATION_CLOSED)
		return;
	route_apply(route);
	if (route->replication || memcmp(&before, &route->frames, sizeof(before)) != 0)
		destination_publish(destination);
}

static void destination_enter(struct destination *destination)
{
	struct destination_table *table = destination->table;
	struct routing *routing = table->routing;

	table->entries[destination->index] = destination;
	route_observe_begin(&destination->route);
	destination->previous_next = &routing->destinations;
	destination->next = routing->destinations;
	if (destination->next)
		destination->next->previous_next = &destination->next;
	routing->destinations = destination;
	destination->loop->route = destination->route.frames;
	loop_command(routing->loop, &(struct loop_command){.type = COMMAND_DESTINATION_OPEN,
							   .ring = table->ring,
							   .index = destination->index,
							   .destination = destination->loop});
}

static void destination_discard(struct destination *destination)
{
	route_release(&destination->route);
	attachment_put(destination->route.routing, destination->attachment);
	if (destination->loop) {
		free(destination->loop->admission.sources);
		free(destination->loop->replication);
	}
	free(destination->loop);
	free(destination);
}

/* Returns the kernel's priority for a message with this TOS (rt_tos2priority). */
static uint8_t priority_of_tos(uint8_t tos)
{
	static const uint8_t by_tos[16] = {0, 0, 0, 0, 2, 2, 2, 2, 6, 6, 6, 6, 4, 4, 4, 4};

	return by_tos[tos >> 1 & 0xf];
}

/* Returns SO_PRIORITY & 15 of the message or its socket. A message's IP_TOS sets a priority, IPV6_TCLASS does
 * not.
 */
static uint8_t priority_of(const struct destination *destination, const struct socket_attributes *attributes)
{
	const struct ktsn_app_key *key = &destination->key;

	if (key->carries & KTSN_APP_CARRIES_PRIORITY)
		return (uint8_t)(key->priority % LOOP_PRIORITIES);
	if (key->carries & KTSN_APP_CARRIES_TOS && destination->route.frames.path.kind == KTSN_FRAME_IPV4)
		return priority_of_tos(key->tos);
	return attributes->priority;
}

static_assert(ADMISSION_MACS_MAX <= (int)LOOP_SOURCE_MACS_MAX, "the loop has them all");
static_assert(ADMISSION_ADDRESSES_MAX <= (int)LOOP_SOURCE_SUBNETS_MAX, "the loop has them all");

static struct loop_sources *sources_copy(const struct endpoint_admission *from)
{
	struct loop_sources *to = calloc(1, sizeof(*to));

	if (!to)
		return NULL;
	to->object = (struct loop_object){.kind = LOOP_SOURCES, .owner = to};
	to->any_address = from->any_address;
	to->mac_count = from->mac_count;
	memcpy(to->macs, from->macs, sizeof(from->macs));
	to->subnet_count = from->address_count;
	for (uint32_t i = 0; i < from->address_count; i++)
		to->subnets[i] = (struct loop_source_subnet){from->addresses[i].network,
							     from->addresses[i].prefix_bits};
	return to;
}

/* The copy has no sources when there is no memory. */
static struct loop_admission admission_copy(const struct endpoint_admission *from)
{
	return (struct loop_admission){.sources = sources_copy(from),
				       .priority_max = from->priority_max,
				       .pcp_is_priority = from->pcp_is_priority};
}

/* Copies the present admission of the endpoint, for packet sockets. */
static int admission_make(struct destination *destination, const struct endpoint *sender)
{
	if (destination->route.frames.path.kind != KTSN_FRAME_ETHERNET)
		return 0;
	if (!sender)
		return -ENETDOWN;
	destination->loop->admission = admission_copy(&sender->admission);
	return destination->loop->admission.sources ? 0 : -ENOMEM;
}

static void attachment_take(struct destination *destination, const struct endpoint *sender)
{
	if (!sender || !sender->attachment)
		return;
	destination->attachment = sender->attachment;
	attachment_use(destination->attachment);
	destination->loop->attachment = &destination->attachment->loop;
}

/* Fills in the loop's part of the destination. */
static int loop_destination_make(struct destination *destination, struct loop_flow *flow,
				 const struct route_query *query)
{
	const struct route *route = &destination->route;
	const struct endpoint *sender = endpoint_on(query->endpoints, route->ns, route->link_index);
	struct loop_destination *loop = destination->loop;
	int err;

	route_apply(&destination->route);
	loop->object = (struct loop_object){.kind = LOOP_DESTINATION, .owner = destination};
	loop->flow = flow;
	loop->ring = destination->table->ring;
	loop->priority = priority_of(destination, query->attributes);
	attachment_take(destination, sender);
	err = admission_make(destination, sender);
	if (err || !destination->route.replication)
		return err;
	loop->replication = replication_copies(&destination->route);
	return loop->replication ? 0 : -ENOMEM;
}

/* A key without an address means the peer of the connected socket. */
static void key_complete(struct ktsn_app_key *key, const struct socket_attributes *attributes)
{
	const struct socket_end *remote = &attributes->remote;

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

int destination_create(struct destination_table *table, struct loop_flow *flow,
		       const struct route_query *query, uint32_t number, struct destination **created)
{
	struct destination *destination = calloc(1, sizeof(*destination));
	struct route_query completed = *query;
	int result = -ENOMEM;

	*created = NULL;
	if (!destination)
		return -ENOMEM;
	destination->table = table;
	destination->key = *query->key;
	key_complete(&destination->key, query->attributes);
	completed.key = &destination->key;
	destination->route.routing = table->routing;
	destination->route.changed = neighbor_changed;
	destination->route.owner = destination;
	destination->loop = calloc(1, sizeof(*destination->loop));
	if (destination->loop)
		result = destination_number_free(table, number, &destination->index);
	if (result == 0)
		result = route_find(&destination->route, &completed);
	if (result == 0)
		result = loop_destination_make(destination, flow, query);
	if (result != 0) {
		destination_discard(destination);
		return result;
	}
	destination_enter(destination);
	*created = destination;
	return 0;
}

void destination_close(struct destination *destination)
{
	destination->closed = true;
	loop_command(destination->route.routing->loop,
		     &(struct loop_command){.type = COMMAND_DESTINATION_CLOSE,
					    .ring = destination->table->ring,
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
	route_observe_end(&destination->route);
}

void destination_free(struct destination *destination)
{
	destination_detach(destination);
	destination->table->entries[destination->index] = NULL;
	destination_discard(destination);
}

void destination_table_detach(const struct destination_table *table)
{
	for (uint32_t i = 0; i < LOOP_DESTINATIONS_PER_RING; i++)
		if (table->entries[i])
			destination_detach(table->entries[i]);
}

void destination_table_free(struct destination_table *table)
{
	for (uint32_t i = 0; i < LOOP_DESTINATIONS_PER_RING; i++)
		if (table->entries[i])
			destination_free(table->entries[i]);
}

/* Closes the route: messages are dropped from now on. */
static void destination_end(struct destination *destination)
{
	if (destination->route.frames.state == DESTINATION_CLOSED)
		return;
	destination->route.frames.state = DESTINATION_CLOSED;
	destination_publish(destination);
}

/* Returns the endpoint that messages leave through, or NULL. */
static const struct endpoint *sender_of(const struct destination *destination)
{
	const struct route *route = &destination->route;

	return destination->endpoint_gone ? NULL : endpoint_at(route->routing, route->ns, route->link_index);
}

static void payload_max_refind(struct destination *destination)
{
	const struct endpoint *sender = sender_of(destination);

	if (sender)
		route_payload_max_find(&destination->route, sender);
}

/* Updates the destination of one receiver that may be at another place; it is closed when there is none. */
static void destination_follow_receiver(struct destination *destination)
{
	const struct endpoint *sender = sender_of(destination);
	int err = sender ? route_receiver_refind(&destination->route, sender) : -ENETDOWN;

	if (err) {
		destination_end(destination);
		return;
	}
	route_apply(&destination->route);
	destination_publish(destination);
}

/* Updates a destination after a change of peers; it is closed when no peer serves it any more. */
static void destination_follow_peers(struct destination *destination)
{
	int changed;

	if (destination->route.frames.state == DESTINATION_CLOSED) {
		destination_follow_receiver(destination);
		return;
	}
	changed = route_peer_refind(&destination->route);
	if (changed < 0)
		destination_end(destination);
	if (changed <= 0)
		return;
	payload_max_refind(destination);
	route_apply(&destination->route);
	destination_publish(destination);
}

static void left_out_warn(const struct destination *destination, uint32_t before)
{
	uint32_t left_out = replication_left_out(&destination->route);

	if (left_out && !before)
		log_warning("a destination of pod %s does not reach all of network %u: %u receivers are more "
			    "than the %d that a message is copied for",
			    destination->table->pod_name, destination->route.vni, left_out + LOOP_COPIES_MAX,
			    LOOP_COPIES_MAX);
}

/* Updates a replication list after a change of peers, their neighbours or ports. */
static void destination_follow_receivers(struct destination *destination)
{
	uint32_t left_out = replication_left_out(&destination->route);
	int changed = replication_refind(&destination->route);

	if (changed < 0)
		log_warning("a destination of pod %s does not follow the receivers of network %u: %s",
			    destination->table->pod_name, destination->route.vni, strerror(-changed));
	if (changed <= 0)
		return;
	left_out_warn(destination, left_out);
	payload_max_refind(destination);
	route_apply(&destination->route);
	destination_publish(destination);
}

void destinations_peers_changed(struct routing *routing, uint32_t vni)
{
	uint16_t port_be = htons(peer_network_port(routing, vni));

	routing->receivers.changed = true;
	for (struct destination *d = routing->destinations; d; d = d->next) {
		if (d->route.vni != vni || d->endpoint_gone || d->route.local)
			continue;
		if (d->route.frames.clear_port_be != port_be) {
			encryption_route_fill(routing, vni, &d->route.frames);
			destination_publish(d);
		}
		if (!d->route.replication)
			destination_follow_peers(d);
	}
}

void destinations_receivers_changed(struct routing *routing)
{
	routing->receivers.changed = false;
	routing->forwarding.changed = false;
	for (struct destination *d = routing->destinations; d; d = d->next)
		if (d->route.replication && !d->endpoint_gone)
			destination_follow_receivers(d);
}

/* Updates only destinations whose hardware address the kernel has learnt at another place. */
static void destinations_forwarding_changed(struct routing *routing)
{
	routing->forwarding.changed = false;
	for (struct destination *d = routing->destinations; d; d = d->next)
		if (d->route.replication && !d->endpoint_gone && replication_outdated(&d->route))
			destination_follow_receivers(d);
}

/* An update takes longer with more peers and lists: the next one starts after ten times its duration. */
enum { FOLLOW_MS = 100, FOLLOW_FACTOR = 10 };

static bool receivers_changed(const struct routing *routing)
{
	return routing->receivers.changed || routing->forwarding.changed;
}

int destinations_tick(struct routing *routing)
{
	int64_t began_ms = clock_monotonic_ms(), took_ms;

	if (!receivers_changed(routing))
		return -1;
	if (began_ms < routing->receivers.follow_from_ms)
		return (int)(routing->receivers.follow_from_ms - began_ms);
	if (routing->receivers.changed)
		destinations_receivers_changed(routing);
	else
		destinations_forwarding_changed(routing);
	took_ms = clock_monotonic_ms() - began_ms;
	routing->receivers.follow_from_ms =
		began_ms + took_ms +
		(took_ms * FOLLOW_FACTOR > FOLLOW_MS ? took_ms * FOLLOW_FACTOR : FOLLOW_MS);
	return receivers_changed(routing) ? (int)(routing->receivers.follow_from_ms - began_ms) : -1;
}

void destinations_mtus_changed(const struct routing *routing)
{
	for (struct destination *d = routing->destinations; d; d = d->next) {
		struct loop_route *frames = &d->route.frames, before = *frames;

		if (frames->state == DESTINATION_CLOSED)
			continue;
		payload_max_refind(d);
		if (frames->payload_max_bytes != before.payload_max_bytes ||
		    frames->tagged_max_bytes != before.tagged_max_bytes)
			destination_publish(d);
	}
}

void destinations_underlay_changed(struct routing *routing)
{
	/* Lists of receivers find them again (destinations_tick). */
	for (struct peer *peer = routing->peers; peer; peer = peer->next)
		peer->next_hop_found_ms = 0;
	routing->receivers.changed = true;
	for (struct destination *d = routing->destinations; d; d = d->next) {
		struct loop_route before = d->route.frames;

		if (d->endpoint_gone || before.state == DESTINATION_CLOSED)
			continue;
		route_underlay_refind(&d->route);
		payload_max_refind(d);
		if (memcmp(&before, &d->route.frames, sizeof(before)) != 0)
			destination_publish(d);
	}
}

void destinations_encryption_changed(const struct routing *routing, uint32_t vni)
{
	for (struct destination *d = routing->destinations; d; d = d->next) {
		struct route *route = &d->route;

		if (d->endpoint_gone || route->vni != vni || route->local)
			continue;
		encryption_route_fill(routing, vni, &route->frames);
		payload_max_refind(d);
		destination_publish(d);
	}
}

static void destination_admission_publish(struct destination *destination,
					  const struct endpoint_admission *admission)
{
	struct loop_command command = {.type = COMMAND_DESTINATION_ADMISSION,
				       .destination = destination->loop,
				       .admission = admission_copy(admission)};

	/* Without memory no frame may leave: it could be one that is forbidden now. */
	if (command.admission.sources)
		loop_command(destination->route.routing->loop, &command);
	else
		destination_end(destination);
}

void destinations_admission_changed(const struct routing *routing, struct endpoint *endpoint)
{
	for (struct destination *d = routing->destinations; d; d = d->next) {
		if (d->route.local == endpoint)
			destination_follow_receiver(d);
		if (d->route.frames.path.kind == KTSN_FRAME_ETHERNET && !d->endpoint_gone &&
		    d->route.ns == endpoint->ns && d->route.link_index == endpoint->link_index)
			destination_admission_publish(d, &endpoint->admission);
	}
	/* Addresses of its interface may be admitted now. */
	destinations_endpoint_added(routing, endpoint);
}

void destinations_bridge_changed(const struct routing *routing, const struct endpoint *sender)
{
	for (struct destination *d = routing->destinations; d; d = d->next) {
		struct route *route = &d->route;

		if (d->endpoint_gone || route->frames.state == DESTINATION_CLOSED ||
		    route->ns != sender->ns || route->link_index != sender->link_index)
			continue;
		if (route->replication)
			replication_bridge_set(route, sender);
		if (!route->local)
			continue;
		route->frames.bridge_link_index = sender->bridge_link_index;
		route_apply(route);
		destination_publish(d);
	}
}

void destinations_endpoint_gone(const struct routing *routing, const struct endpoint *endpoint)
{
	for (struct destination *d = routing->destinations; d; d = d->next) {
		if (d->route.ns == endpoint->ns && d->route.link_index == endpoint->link_index) {
			d->route.local = NULL;
			d->endpoint_gone = true;
			destination_end(d);
		} else if (d->route.local == endpoint) {
			destination_follow_receiver(d);
		}
	}
}

void destinations_endpoint_added(const struct routing *routing, struct endpoint *endpoint)
{
	for (struct destination *d = routing->destinations; d; d = d->next)
		if (d->route.vni == endpoint->vni && !d->endpoint_gone && !d->route.local &&
		    !d->route.replication && endpoint_has_address(endpoint, &d->route.address))
			destination_follow_receiver(d);
}
