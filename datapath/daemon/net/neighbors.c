/* SPDX-License-Identifier: Apache-2.0 */
#include "neighbors.h"

#include "clock.h"

#include <errno.h>
#include <stdlib.h>

enum {
	RETRY_MS = 1000,    /* of a neighbour that did not answer */
	CONFIRM_MS = 20000, /* of one that did; the kernel keeps a stale entry for 60 s (arp(7)) */
};

static void neighbor_use(struct neighbor *neighbor)
{
	neighbor->used_ms = clock_monotonic_ms();
	if (neighbor->entry.configured)
		return;
	(void)rtnl_neighbor_use(neighbor->ns->rtnl, neighbor->entry.link_index, &neighbor->entry.address);
}

/*
 * For want of a datagram to take the source address from, the kernel solicits IPv6 neighbours from the
 * interface's link-local address, which it may not use in its first seconds (duplicate address detection, RFC
 * 4862 section 5.4): what fails then is tried once more before it is believed.
 */
static bool deserves_another_try(struct neighbor *neighbor, const struct rtnl_neighbor *entry)
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

void neighbor_entry_changed(struct namespace *ns, const struct rtnl_neighbor *entry)
{
	for (struct neighbor *n = ns->neighbors; n; n = n->next) {
		if (n->entry.link_index != entry->link_index ||
		    !ktsn_address_equal(&n->entry.address, &entry->address))
			continue;
		if (entry->state == NEIGHBOR_UNKNOWN || deserves_another_try(n, entry)) {
			/* We still need what the kernel dropped. What was valid stays so meanwhile. */
			n->used_ms = clock_monotonic_ms();
			(void)rtnl_neighbor_use(ns->rtnl, entry->link_index, &entry->address);
		} else if (entry->state != NEIGHBOR_RESOLVING || n->entry.state != NEIGHBOR_VALID) {
			n->entry = *entry;
			n->failed = entry->state == NEIGHBOR_FAILED ||
				    (n->failed && entry->state != NEIGHBOR_VALID);
			neighbor_observers_call(n);
		}
		return;
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
	/* Also when valid: it may be stale, and this has the kernel confirm it. */
	neighbor_use(neighbor);
	if (neighbor->entry.state != NEIGHBOR_VALID)
		neighbor->entry.state = NEIGHBOR_RESOLVING;
	return 0;
}

int neighbor_get(struct namespace *ns, int link_index, const struct ktsn_address *address,
		 struct neighbor **result)
{
	struct neighbor *neighbor;
	int err;

	for (neighbor = ns->neighbors; neighbor; neighbor = neighbor->next) {
		if (neighbor->entry.link_index == link_index &&
		    ktsn_address_equal(&neighbor->entry.address, address)) {
			neighbor->users++;
			*result = neighbor;
			return 0;
		}
	}
	neighbor = calloc(1, sizeof(*neighbor));
	if (!neighbor)
		return -ENOMEM;
	neighbor->ns = ns;
	err = neighbor_look_up(neighbor, link_index, address);
	if (err) {
		free(neighbor);
		return err;
	}
	ns->users++;
	neighbor->users = 1;
	neighbor->next = ns->neighbors;
	ns->neighbors = neighbor;
	*result = neighbor;
	return 0;
}

void neighbor_put(struct neighbor *neighbor)
{
	struct neighbor **at;

	if (!neighbor || --neighbor->users > 0)
		return;
	for (at = &neighbor->ns->neighbors; *at != neighbor; at = &(*at)->next)
		;
	*at = neighbor->next;
	namespace_put(neighbor->ns);
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
