/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge_ports.h"

#include <stdlib.h>

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
	bool failed = rtnl_links_each(routing->own_ns->rtnl, port_note, &reading) || reading.failed;

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
