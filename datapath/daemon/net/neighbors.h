/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neighbours that ktsnd needs: the kernel resolves and confirms them, and whoever observes one is told when
 * it changes.
 *
 * Control thread. Part of net: above sys, below route.
 */
#ifndef KTSN_DAEMON_NEIGHBORS_H
#define KTSN_DAEMON_NEIGHBORS_H

#include "hash_table.h"
#include "namespace.h"

/* Embedded by whoever has to know of a neighbour's changes. All zero: observes none. */
struct neighbor_observer {
	void (*changed)(void *owner);
	void *owner;
	struct neighbor_observer *next, **previous_next;
};

struct neighbor {
	struct namespace *ns;
	struct rtnl_neighbor entry;
	bool failed;     /* it did not answer, and has not been heard of since */
	bool retried;    /* the kernel was asked a second time (neighbor_entry_changed) */
	int64_t used_ms; /* when the kernel was last asked to resolve or confirm it */
	unsigned int users;
	struct neighbor_observer *observers;
	struct hash_entry entry_of_table;
	struct neighbor *next, **previous_next; /* in its namespace */
};

/* A neighbour, resolving it if need be; its state may be "not yet". 0 or -errno. */
int neighbor_get(struct namespace *ns, int link_index, const struct ktsn_address *address,
		 struct neighbor **neighbor);
/* Another user of one. NULL is harmless, here and below. */
struct neighbor *neighbor_hold(struct neighbor *neighbor);
void neighbor_put(struct neighbor *neighbor);

/* `changed` is called with `owner` when the neighbour changes, until the observer is removed; it must
 * neither add nor remove one. A neighbour of NULL, and an observer of none, are harmless. */
void neighbor_observer_add(struct neighbor *neighbor, struct neighbor_observer *observer,
			   void (*changed)(void *owner), void *owner);
void neighbor_observer_remove(struct neighbor_observer *observer);
/* Calls all observers of a neighbour. */
void neighbor_observers_call(const struct neighbor *neighbor);

/* The kernel's entry is this now: of a neighbour that is known, its observers are called. */
void neighbor_entry_changed(struct namespace *ns, const struct rtnl_neighbor *entry);
/* Asks the kernel for each neighbour, since it dropped notifications. */
void neighbors_reread(struct namespace *ns);
/* Has the kernel ask again for each that is not valid: a link carries again. */
void neighbors_retry(struct namespace *ns);

/* Confirms neighbours in use before the kernel forgets them, and tries again those that failed. Returns
 * ms until it wants to be called again, -1: not. */
int neighbors_tick(const struct namespaces *all);

#endif
