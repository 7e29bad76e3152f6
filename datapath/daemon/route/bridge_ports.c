/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge_ports.h"

#include "commands.h"
#include "endpoint.h"
#include "log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- ports ---- */

/* The result of a dump of links. */
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

static void port_collect(const struct rtnl_link *link, void *context)
{
	struct ports_reading *reading = context;

	if ((!link->master_index && !link->vni) || !link->up || reading->failed)
		return;
	if (reading->count == reading->room && !ports_grow(reading)) {
		reading->failed = true;
		return;
	}
	reading->ports[reading->count++] = (struct bridge_port){.link_index = link->index,
								.bridge_link_index = link->master_index,
								.tunnel = link->tunnel,
								.vni = link->vni};
}

static bool ports_equal(const struct bridge_ports *ports, const struct ports_reading *reading)
{
	if (reading->count != ports->count)
		return false;
	for (uint32_t i = 0; i < reading->count; i++) {
		const struct bridge_port *a = &reading->ports[i], *b = &ports->entries[i];

		if (a->link_index != b->link_index || a->bridge_link_index != b->bridge_link_index ||
		    a->tunnel != b->tunnel || a->vni != b->vni)
			return false;
	}
	return true;
}

bool bridge_ports_read(struct routing *routing)
{
	struct ports_reading reading = {.count = 0};
	bool failed = rtnl_links_each(routing->own_ns->rtnl, port_collect, &reading) || reading.failed;

	if (!failed)
		routing->ports.read = true;
	if (failed || ports_equal(&routing->ports, &reading)) {
		free(reading.ports);
		return false;
	}
	free(routing->ports.entries);
	routing->ports.entries = reading.ports;
	routing->ports.count = reading.count;
	return true;
}

/* ---- receivers ---- */

struct bridge_receiver {
	struct loop_receiver loop;
	uint32_t link_index;
	bool wanted;
	struct bridge_receiver *next;
};

static struct bridge_receiver *receiver_find(const struct routing *routing, uint32_t link_index)
{
	struct bridge_receiver *receiver = routing->bridge_receivers.first;

	while (receiver && receiver->link_index != link_index)
		receiver = receiver->next;
	return receiver;
}

static int receiver_begin(struct routing *routing, uint32_t link_index)
{
	struct bridge_receiver *receiver = calloc(1, sizeof(*receiver));
	int err = receiver ? loop_receiver_begin(routing->loop, link_index, &receiver->loop.port_receiver)
			   : -ENOMEM;

	/* The port has no receivers. */
	if (err || !receiver->loop.port_receiver) {
		free(receiver);
		return err;
	}
	receiver->loop.object = (struct loop_object){.kind = LOOP_RECEIVER, .owner = receiver};
	receiver->link_index = link_index;
	receiver->wanted = true;
	receiver->next = routing->bridge_receivers.first;
	routing->bridge_receivers.first = receiver;
	loop_command(routing->loop,
		     &(struct loop_command){.type = COMMAND_RECEIVER_OPEN, .receiver = &receiver->loop});
	return 0;
}

static void receiver_mark(struct routing *routing, uint32_t link_index)
{
	struct bridge_receiver *receiver = link_index ? receiver_find(routing, link_index) : NULL;
	int err;

	if (receiver)
		receiver->wanted = true;
	if (receiver || !link_index)
		return;
	err = receiver_begin(routing, link_index);
	/* Messages to the port still leave, in the queue of ports without a receiver. */
	if (err)
		log_warning(
			"no queue of its own for messages to port %u of this node: %s; free memory or raise "
			"the limit of threads",
			link_index, strerror(-err));
}

static bool is_of_endpoint(const struct routing *routing, int bridge_link_index)
{
	for (const struct endpoint_set *set = routing->endpoint_sets; set; set = set->next)
		for (const struct endpoint *e = set->first; e; e = e->next)
			if ((int)e->bridge_link_index == bridge_link_index)
				return true;
	return false;
}

static void receivers_mark(struct routing *routing)
{
	const struct bridge_ports *ports = &routing->ports;

	for (const struct endpoint_set *set = routing->endpoint_sets; set; set = set->next)
		for (const struct endpoint *e = set->first; e; e = e->next)
			if (e->bridge_link_index)
				receiver_mark(routing, e->port_link_index);
	for (uint32_t i = 0; i < ports->count; i++) {
		const struct bridge_port *port = &ports->entries[i];

		if (!port->tunnel && port->bridge_link_index &&
		    is_of_endpoint(routing, port->bridge_link_index))
			receiver_mark(routing, (uint32_t)port->link_index);
	}
}

static void unmarked_close(struct routing *routing)
{
	struct bridge_receiver **at = &routing->bridge_receivers.first;

	while (*at) {
		struct bridge_receiver *receiver = *at;

		if (receiver->wanted) {
			receiver->wanted = false;
			at = &receiver->next;
			continue;
		}
		*at = receiver->next;
		loop_command(routing->loop, &(struct loop_command){.type = COMMAND_RECEIVER_CLOSE,
								   .receiver = &receiver->loop});
	}
}

void bridge_receivers_follow(struct routing *routing)
{
	if (!routing->bridge_receivers.changed)
		return;
	routing->bridge_receivers.changed = false;
	receivers_mark(routing);
	unmarked_close(routing);
}

void bridge_receivers_close(struct routing *routing)
{
	for (struct bridge_receiver *r = routing->bridge_receivers.first; r; r = r->next)
		r->wanted = false;
	unmarked_close(routing);
}

void bridge_receiver_free(struct routing *routing, struct bridge_receiver *receiver)
{
	loop_receiver_end(routing->loop, receiver->loop.port_receiver);
	free(receiver);
}
