/* SPDX-License-Identifier: Apache-2.0 */
#include "neighbors.h"

#include "clock.h"
#include "container_of.h"

#include <errno.h>
#include <stdlib.h>

enum {
	RETRY_MS = 1000,    /* for a neighbour that did not answer */
	CONFIRM_MS = 20000, /* for a valid neighbour; the kernel keeps a stale entry for 60 s (arp(7)) */
};

static void neighbor_use(struct neighbor *neighbor)
{
	neighbor->used_ms = clock_monotonic_ms();
	if (neighbor->entry.configured)
		return;
	(void)rtnl_neighbor_use(neighbor->ns->rtnl, neighbor->entry.link_index, &neighbor->entry.address);
}

/*
 * Whether to try again after a failure. Without a datagram to take the source address from, the kernel
 * solicits IPv6 neighbours from the interface's link-local address, which it may not use in its first seconds
 * (duplicate address detection, RFC 4862 section 5.4). So the first failure does not count.
 */
static bool retry_takes(struct neighbor *neighbor, const struct rtnl_neighbor *entry)
{
	if (entry->state != NEIGHBOR_FAILED || neighbor->retried || ktsn_address_is_ipv4(&entry->address))
		return false;
	neighbor->retried = true;
	return true;
}

void neighbor_observers_call(const struct neighbor *neighbor)
{
	for (const struct neighbor_observer *observer = neighbor->observers; observer;
	     observer = observer->next)
		observer->changed(observer->owner);
}

static uint32_t neighbor_hash(int link_index, const struct ktsn_address *address)
{
	return hash_of(address->bytes, sizeof(address->bytes), hash_of(&link_index, sizeof(link_index), 0));
}

static struct neighbor *neighbor_find(const struct namespace *ns, int link_index,
				      const struct ktsn_address *address)
{
	struct hash_entry *entry = NULL;

	if (ns->neighbor_table)
		entry = hash_table_first(ns->neighbor_table, neighbor_hash(link_index, address));
	for (; entry; entry = hash_table_next(ns->neighbor_table, entry)) {
		struct neighbor *neighbor = container_of(entry, struct neighbor, entry_of_table);

		if (neighbor->entry.link_index == link_index &&
		    ktsn_address_equal(&neighbor->entry.address, address))
			return neighbor;
	}
	return NULL;
}

void neighbor_entry_changed(struct namespace *ns, const struct rtnl_neighbor *entry)
{
	struct neighbor *n = neighbor_find(ns, entry->link_index, &entry->address);

	if (!n)
		return;
	if (entry->state == NEIGHBOR_UNKNOWN || retry_takes(n, entry)) {
		/* The neighbour is still needed. A valid entry stays valid until the kernel answers. */
		n->used_ms = clock_monotonic_ms();
		(void)rtnl_neighbor_use(ns->rtnl, entry->link_index, &entry->address);
	} else if (entry->state != NEIGHBOR_RESOLVING || n->entry.state != NEIGHBOR_VALID) {
		n->entry = *entry;
		n->failed = entry->state == NEIGHBOR_FAILED || (n->failed && entry->state != NEIGHBOR_VALID);
		neighbor_observers_call(n);
	}
}

void neighbors_reread(struct namespace *ns)
{
	for (struct neighbor *n = ns->neighbors; n; n = n->next) {
		struct rtnl_neighbor entry;

		if (rtnl_neighbor_get(ns->rtnl, n->entry.link_index, &n->entry.address, &entry) == 0 &&
		    !ktsn_address_is_any(&entry.address))
			neighbor_entry_changed(ns, &entry);
	}
}

void neighbors_retry(struct namespace *ns)
{
	for (struct neighbor *n = ns->neighbors; n; n = n->next)
		if (n->entry.state != NEIGHBOR_VALID)
			neighbor_use(n);
}

static int neighbor_look_up(struct neighbor *neighbor, int link_index, const struct ktsn_address *address)
{
	int err = rtnl_neighbor_get(neighbor->ns->rtnl, link_index, address, &neighbor->entry);

	neighbor->entry.link_index = link_index;
	neighbor->entry.address = *address;
	if (err)
		return err;
	/* Even a valid entry may be stale: this makes the kernel confirm it. */
	neighbor_use(neighbor);
	if (neighbor->entry.state != NEIGHBOR_VALID)
		neighbor->entry.state = NEIGHBOR_RESOLVING;
	return 0;
}

static void neighbor_enter(struct neighbor *neighbor)
{
	struct namespace *ns = neighbor->ns;

	hash_table_insert(ns->neighbor_table, &neighbor->entry_of_table,
			  neighbor_hash(neighbor->entry.link_index, &neighbor->entry.address));
	neighbor->next = ns->neighbors;
	neighbor->previous_next = &ns->neighbors;
	if (neighbor->next)
		neighbor->next->previous_next = &neighbor->next;
	ns->neighbors = neighbor;
	ns->users++;
}

static void neighbor_leave(struct neighbor *neighbor)
{
	struct namespace *ns = neighbor->ns;

	hash_table_remove(ns->neighbor_table, &neighbor->entry_of_table);
	*neighbor->previous_next = neighbor->next;
	if (neighbor->next)
		neighbor->next->previous_next = neighbor->previous_next;
	if (!ns->neighbors) {
		hash_table_destroy(ns->neighbor_table);
		ns->neighbor_table = NULL;
	}
	namespace_put(ns);
}

int neighbor_get(struct namespace *ns, int link_index, const struct ktsn_address *address,
		 struct neighbor **result)
{
	struct neighbor *neighbor = neighbor_hold(neighbor_find(ns, link_index, address));
	int err = 0;

	*result = neighbor;
	if (neighbor)
		return 0;
	neighbor = calloc(1, sizeof(*neighbor));
	if (!neighbor)
		return -ENOMEM;
	neighbor->ns = ns;
	err = neighbor_look_up(neighbor, link_index, address);
	if (!err && !ns->neighbor_table)
		err = hash_table_create(&ns->neighbor_table);
	if (err) {
		free(neighbor);
		return err;
	}
	neighbor->users = 1;
	neighbor_enter(neighbor);
	*result = neighbor;
	return 0;
}

struct neighbor *neighbor_hold(struct neighbor *neighbor)
{
	if (neighbor)
		neighbor->users++;
	return neighbor;
}

void neighbor_put(struct neighbor *neighbor)
{
	if (!neighbor || --neighbor->users > 0)
		return;
	neighbor_leave(neighbor);
	free(neighbor);
}

void neighbor_observer_add(struct neighbor *neighbor, struct neighbor_observer *observer,
			   void (*changed)(void *owner), void *owner)
{
	if (!neighbor)
		return;
	*observer = (struct neighbor_observer){.changed = changed,
					       .owner = owner,
					       .next = neighbor->observers,
					       .previous_next = &neighbor->observers};
	if (observer->next)
		observer->next->previous_next = &observer->next;
	neighbor->observers = observer;
}

void neighbor_observer_remove(struct neighbor_observer *observer)
{
	if (!observer->previous_next)
		return;
	*observer->previous_next = observer->next;
	if (observer->next)
		observer->next->previous_next = observer->previous_next;
	observer->previous_next = NULL;
}

int neighbors_tick(const struct namespaces *all)
{
	int64_t now = clock_monotonic_ms();
	int64_t next = INT64_MAX;

	for (struct namespace *ns = all->first; ns; ns = ns->next) {
		for (struct neighbor *n = ns->neighbors; n; n = n->next) {
			int64_t due = n->used_ms + (n->entry.state == NEIGHBOR_VALID ? CONFIRM_MS : RETRY_MS);

			if (due <= now) {
				neighbor_use(n);
				due = now + RETRY_MS;
			}
			next = due < next ? due : next;
		}
	}
	return next == INT64_MAX ? -1 : (int)(next - now);
}
