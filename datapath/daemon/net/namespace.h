/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network namespaces that ktsnd looks into. One struct namespace per namespace, however many endpoints live
 * in it; identified by its cookie, which the kernel also tells of every socket (SO_NETNS_COOKIE). Changes in
 * them are told to an observer.
 *
 * Control thread. Part of net: above sys, below route.
 */
#ifndef KTSN_DAEMON_NAMESPACE_H
#define KTSN_DAEMON_NAMESPACE_H

#include "events.h"
#include "rtnl.h"

struct hash_table;
struct namespace;
struct neighbor;

/* Who is told of changes in namespaces. All are required. */
struct namespace_observer {
	void (*neighbor_changed)(struct namespace *ns, const struct rtnl_neighbor *entry);
	void (*forwarding_changed)(struct namespace *ns, const struct rtnl_forwarding *entry);
	/* `carrying`: up, and with a carrier. MTU of 0: the link has gone. */
	void (*link_changed)(struct namespace *ns, int link_index, bool carrying, uint32_t mtu_bytes);
	void (*addresses_changed)(struct namespace *ns, int link_index);
	void (*groups_changed)(struct namespace *ns);
	/* The kernel dropped notifications: what is needed must be asked for. */
	void (*notifications_lost)(struct namespace *ns);
};

/* All that are open. */
struct namespaces {
	struct events *events;
	const struct namespace_observer *observer;
	void *owner; /* for the observer */
	struct namespace *first;
};

struct namespace
{
	struct namespaces *all;
	char *path; /* NULL: ktsnd's own */
	uint64_t cookie;
	struct rtnl *rtnl;
	struct rtnl *monitor;
	struct event_source changes;
	struct neighbor *neighbors;        /* neighbors.h */
	struct hash_table *neighbor_table; /* of them; NULL while there are none */
	unsigned int users;
	struct namespace *next;
};

/* Opens the namespace at `path` (NULL: ktsnd's own), or counts another user of one already open.
 * 0 or -errno. */
int namespace_get(struct namespaces *all, const char *path, struct namespace **ns);
/* NULL is harmless. */
void namespace_put(struct namespace *ns);

#endif
