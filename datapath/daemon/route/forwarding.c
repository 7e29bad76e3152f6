/* SPDX-License-Identifier: Apache-2.0 */
#include "forwarding.h"

#include "container_of.h"
#include "hash_table.h"

#include <stdlib.h>
#include <string.h>

struct forwarding_entry {
	struct hash_entry hashed;
	enum rtnl_forwarding_device device;
	struct rtnl_forwarding state;
	uint32_t version; /* incremented by each change */
	bool queried;
	uint32_t losses; /* losses of notifications until the last query */
	uint32_t users;
};

static uint32_t key_hash(int device_link_index, const uint8_t mac[6])
{
	return hash_of(mac, 6, hash_of(&device_link_index, sizeof(device_link_index), 0));
}

static struct forwarding_entry *entry_find(const struct forwarding *forwarding, int device_link_index,
					   const uint8_t mac[6])
{
	struct hash_entry *at =
		forwarding->entries ? hash_table_first(forwarding->entries, key_hash(device_link_index, mac))
				    : NULL;

	for (; at; at = hash_table_next(forwarding->entries, at)) {
		struct forwarding_entry *entry = container_of(at, struct forwarding_entry, hashed);

		if (entry->state.device_link_index == device_link_index &&
		    memcmp(entry->state.mac, mac, sizeof(entry->state.mac)) == 0)
			return entry;
	}
	return NULL;
}

static struct forwarding_entry *entry_make(struct forwarding *forwarding, enum rtnl_forwarding_device device,
					   int device_link_index, const uint8_t mac[6])
{
	struct forwarding_entry *entry;

	if (!forwarding->entries && hash_table_create(&forwarding->entries))
		return NULL;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->device = device;
	entry->state.device_link_index = device_link_index;
	memcpy(entry->state.mac, mac, sizeof(entry->state.mac));
	hash_table_insert(forwarding->entries, &entry->hashed, key_hash(device_link_index, mac));
	return entry;
}

/* Returns NULL for no device, and without memory. */
static struct forwarding_entry *entry_get(struct forwarding *forwarding, enum rtnl_forwarding_device device,
					  int device_link_index, const uint8_t mac[6])
{
	struct forwarding_entry *entry;

	if (!device_link_index)
		return NULL;
	entry = entry_find(forwarding, device_link_index, mac);
	if (!entry)
		entry = entry_make(forwarding, device, device_link_index, mac);
	if (entry)
		entry->users++;
	return entry;
}

static void entry_put(struct forwarding *forwarding, struct forwarding_entry *entry)
{
	if (!entry || --entry->users > 0)
		return;
	hash_table_remove(forwarding->entries, &entry->hashed);
	free(entry);
}

static bool state_equal(const struct rtnl_forwarding *a, const struct rtnl_forwarding *b)
{
	return a->known == b->known && a->configured == b->configured &&
	       a->port_link_index == b->port_link_index && a->remote_be == b->remote_be;
}

static void entry_set(struct forwarding_entry *entry, const struct rtnl_forwarding *state)
{
	entry->version += !state_equal(&entry->state, state);
	entry->state.known = state->known;
	entry->state.configured = state->configured;
	entry->state.port_link_index = state->port_link_index;
	entry->state.remote_be = state->remote_be;
}

static bool entry_current(const struct forwarding *forwarding, const struct forwarding_entry *entry)
{
	return entry->queried && entry->losses == forwarding->losses;
}

static void entry_query(const struct routing *routing, struct forwarding_entry *entry)
{
	struct rtnl_forwarding state;

	entry->queried = true;
	entry->losses = routing->forwarding.losses;
	/* Without an answer the place is unknown. */
	if (rtnl_forwarding_get(routing->own_ns->rtnl, entry->device, entry->state.device_link_index,
				entry->state.mac, &state))
		state = (struct rtnl_forwarding){.known = false};
	entry_set(entry, &state);
}

static const struct rtnl_forwarding *entry_read(const struct routing *routing, struct forwarding_entry *entry,
						uint32_t *seen)
{
	static const struct rtnl_forwarding nothing;

	if (!entry)
		return &nothing;
	if (!entry_current(&routing->forwarding, entry))
		entry_query(routing, entry);
	*seen = entry->version;
	return &entry->state;
}

void forwarding_watch_set(struct routing *routing, struct forwarding_watch *watch, int bridge_link_index,
			  int tunnel_link_index, const uint8_t mac[6])
{
	struct forwarding *forwarding = &routing->forwarding;
	struct forwarding_watch before = *watch;

	if (watch->bridge_link_index == bridge_link_index && watch->tunnel_link_index == tunnel_link_index &&
	    memcmp(watch->mac, mac, sizeof(watch->mac)) == 0)
		return;
	watch->bridge_link_index = bridge_link_index;
	watch->tunnel_link_index = tunnel_link_index;
	memcpy(watch->mac, mac, sizeof(watch->mac));
	watch->bridge = entry_get(forwarding, FORWARDING_BRIDGE, bridge_link_index, mac);
	watch->tunnel = entry_get(forwarding, FORWARDING_TUNNEL, tunnel_link_index, mac);
	entry_put(forwarding, before.bridge);
	entry_put(forwarding, before.tunnel);
}

static bool entry_changed(const struct routing *routing, const struct forwarding_entry *entry, uint32_t seen)
{
	return entry && (!entry_current(&routing->forwarding, entry) || entry->version != seen);
}

bool forwarding_watch_changed(const struct routing *routing, const struct forwarding_watch *watch)
{
	return entry_changed(routing, watch->bridge, watch->bridge_seen) ||
	       entry_changed(routing, watch->tunnel, watch->tunnel_seen);
}

struct forwarding_place forwarding_find(struct routing *routing, struct forwarding_watch *watch)
{
	const struct rtnl_forwarding *bridge = entry_read(routing, watch->bridge, &watch->bridge_seen);
	const struct rtnl_forwarding *tunnel = entry_read(routing, watch->tunnel, &watch->tunnel_seen);
	bool at_port = bridge->known && bridge->port_link_index != watch->tunnel_link_index;

	if (at_port && (bridge->configured || !tunnel->configured))
		return (struct forwarding_place){.port_link_index = bridge->port_link_index};
	return (struct forwarding_place){.remote_be = tunnel->remote_be};
}

void forwarding_entry_changed(struct routing *routing, const struct rtnl_forwarding *state)
{
	struct forwarding *forwarding = &routing->forwarding;
	struct forwarding_entry *entry = entry_find(forwarding, state->device_link_index, state->mac);

	if (!entry)
		return;
	entry_set(entry, state);
	forwarding->changed = true;
}

void forwarding_reread(struct routing *routing)
{
	routing->forwarding.losses++;
	routing->forwarding.changed = true;
}

void forwarding_fini(struct routing *routing)
{
	hash_table_destroy(routing->forwarding.entries);
}
