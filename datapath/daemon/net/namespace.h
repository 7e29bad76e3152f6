/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network namespaces that ktsnd looks into, and the neighbours it needs there. One struct namespace per
 * namespace, however many endpoints live in it; identified by its cookie, which the kernel also tells of
 * every socket (SO_NETNS_COOKIE).
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_NAMESPACE_H
#define KTSN_DAEMON_NAMESPACE_H

#include "events.h"
#include "rtnl.h"

struct destination;
struct node;

/* A place among the destinations of a neighbour. All zero: in none. */
struct neighbor_tie {
	struct destination *destination;
	struct neighbor_tie *next, **previous_next;
};

struct neighbor {
	struct namespace *ns;
	struct rtnl_neighbor entry;
	bool failed;     /* it did not answer, and has not been heard of since */
	bool retried;    /* the kernel was asked a second time (changed()) */
	int64_t used_ms; /* when the kernel was last asked to resolve or confirm it */
	unsigned int users;
	struct neighbor_tie *ties; /* what has to know when it changes */
	struct neighbor *next;
};

struct namespace
{
	struct node *node;
	char *path; /* NULL: ktsnd's own */
	uint64_t cookie;
	struct rtnl *rtnl;
	struct rtnl *monitor;
	struct event_source changes;
	struct neighbor *neighbors;
	unsigned int users;
	struct namespace *next;
};

/* Opens the namespace at `path` (NULL: ktsnd's own), or counts another user of one already open.
 * 0 or -errno. */
int namespace_get(struct node *node, const char *path, struct namespace **ns);
void namespace_put(struct namespace *ns);

/* Another user of a namespace that is open; NULL when none has this cookie. */
struct namespace *namespace_by_cookie(struct node *node, uint64_t cookie);

/* A neighbour, resolving it if need be; its state may be "not yet". 0 or -errno. */
int neighbor_get(struct namespace *ns, int link_index, const struct ktsn_address *address,
		 struct neighbor **neighbor);
void neighbor_put(struct neighbor *neighbor);
/* The destination is told of its changes, until it is untied. A neighbour of NULL, and a tie in none, are harmless. */
void neighbor_tie(struct neighbor *neighbor, struct neighbor_tie *tie, struct destination *destination);
void neighbor_untie(struct neighbor_tie *tie);

/* Confirms neighbours in use before the kernel forgets them, and tries again those that failed. Returns
 * ms until it wants to be called again, -1: not. */
int neighbors_tick(struct node *node);

#endif
