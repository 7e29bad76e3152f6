/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neighbours that ktsnd needs. The kernel resolves and confirms them; observers of a neighbour are called
 * when it changes.
 *
 * Control thread. Part of net: above sys, below route.
 */
#ifndef KTSN_DAEMON_NEIGHBORS_H
#define KTSN_DAEMON_NEIGHBORS_H

#include "hash_table.h"
#include "namespace.h"

/* Embedded by objects that follow a neighbour. All zero: observes none. */
struct neighbor_observer {
	void (*changed)(void *owner);
	void *owner;
	struct neighbor_observer *next, **previous_next;
};

struct neighbor {
	struct namespace *ns;
	struct rtnl_neighbor entry;
	bool failed;     /* did not answer, and has not become valid since */
	bool retried;    /* after its first failure (neighbor_entry_changed) */
	int64_t used_ms; /* when the kernel was last asked to resolve or confirm it */
	unsigned int users;
	struct neighbor_observer *observers;
	struct hash_entry entry_of_table;
	struct neighbor *next, **previous_next; /* in its namespace */
};

/* Returns a neighbour, which may still be resolving, and counts a user of it. 0 or -errno. */
int neighbor_get(struct namespace *ns, int link_index, const struct ktsn_address *address,
		 struct neighbor **neighbor);
/* Counts another user. NULL is harmless, here and below. */
struct neighbor *neighbor_hold(struct neighbor *neighbor);
void neighbor_put(struct neighbor *neighbor);

/* `changed` is called with `owner` when the neighbour changes, until the observer is removed; it must
 * neither add nor remove observers. A neighbour of NULL is harmless, and so is removing an unused observer.
 */
void neighbor_observer_add(struct neighbor *neighbor, struct neighbor_observer *observer,
			   void (*changed)(void *owner), void *owner);
void neighbor_observer_remove(struct neighbor_observer *observer);
/* Calls all observers of a neighbour. */
void neighbor_observers_call(const struct neighbor *neighbor);

/* Takes an entry of the kernel. If the neighbour is known, its observers are called. */
void neighbor_entry_changed(struct namespace *ns, const struct rtnl_neighbor *entry);
/* Reads each neighbour from the kernel, after it dropped notifications. */
void neighbors_reread(struct namespace *ns);
/* Makes the kernel resolve each neighbour that is not valid, after a link has a carrier again. */
void neighbors_retry(struct namespace *ns);

/* Confirms neighbours before the kernel forgets them, and retries failed ones. Returns ms until it must be
 * called again, or -1. */
int neighbors_tick(const struct namespaces *all);

#endif
