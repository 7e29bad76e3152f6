/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network namespaces of pods and of ktsnd. There is one struct namespace per namespace, however many
 * endpoints are in it, identified by its cookie, which every socket has as well (SO_NETNS_COOKIE). An
 * observer is notified of changes.
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

/* Callbacks for changes in namespaces. All are required. */
struct namespace_observer {
	void (*neighbor_changed)(struct namespace *ns, const struct rtnl_neighbor *entry);
	void (*forwarding_changed)(struct namespace *ns, const struct rtnl_forwarding *entry);
	/* `carrying`: up, and with a carrier. MTU of 0: the link has gone. */
	void (*link_changed)(struct namespace *ns, int link_index, bool carrying, uint32_t mtu_bytes);
	void (*addresses_changed)(struct namespace *ns, int link_index);
	void (*groups_changed)(struct namespace *ns);
	void (*routes_changed)(struct namespace *ns); /* of IPv4, in ktsnd's own namespace */
	/* The kernel dropped notifications: the observer must read again what it needs. */
	void (*notifications_lost)(struct namespace *ns);
};

/* All open namespaces. */
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
	struct hash_table *neighbor_table; /* NULL while there are no neighbours */
	unsigned int users;
	struct namespace *next;
};

/* Opens the namespace at `path` (NULL: ktsnd's own), or counts another user of one already open.
 * 0 or -errno. */
int namespace_get(struct namespaces *all, const char *path, struct namespace **ns);
/* NULL is harmless. */
void namespace_put(struct namespace *ns);

#endif
