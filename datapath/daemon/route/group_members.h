/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ports of this node's bridges are members of which groups. The bridges listen to the reports of pods
 * (IGMP, MLD) and forget who does not report again; ktsnd reads what they know, and asks the pods often
 * enough: by queries that it sends out of each port, not onto the bridge. The bridges themselves, and other
 * nodes, hear no querier, so what the kernel forwards stays as it is.
 *
 *   port comes -----> query, query ----> learnt        until then it gets all groups
 *   every 125 s ----> query                            memberships last 260 s
 *   bridge forgets -> query, 3 s patience -> no member  another host behind the port may still be one
 *   port goes, comes back: its members stay until it is learnt again, if it was away for less than 3 s
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_GROUP_MEMBERS_H
#define KTSN_DAEMON_GROUP_MEMBERS_H

#include "group_frames.h"
#include "routing_state.h"

struct bridge_port;

struct group_member {
	int bridge_link_index, link_index;
	bool router; /* wants all groups; and `group` is none */
	struct ktsn_address group;
	int64_t until_ms; /* the bridge has forgotten it: so long it stays one; 0: it has not */
};

/* A port of a network's bridge, a pod behind it. */
struct group_port {
	int link_index, bridge_link_index;
	uint8_t queries; /* sent since it came, up to those that make it learnt */
	bool learnt;
	int64_t query_ms; /* when the next is due, on CLOCK_MONOTONIC */
	int64_t learnt_ms;
};

struct group_bridge {
	int link_index;
	bool snooping; /* it listens, and could be read */
	bool ready;    /* all pods that were there have answered */
	int64_t ready_ms;
};

struct group_members {
	int send_fd;
	bool changed;                 /* the bridges' tables have, since they were read, */
	int64_t read_from_ms;         /* which they are not before this time */
	int64_t read_by_ms;           /* but by then in any case */
	struct group_member *members; /* in their order */
	struct group_port *ports;
	struct group_bridge *bridges;
	uint32_t count, port_count, bridge_count;
};

/* 0 or -errno. */
int group_members_init(struct group_members *members);
void group_members_fini(struct group_members *members);

/* The ports of bridges are others now. */
void group_members_ports_changed(struct group_members *members, const struct routing *routing);
/* Reads, asks and learns what is due. True when somebody is a member now who was not, or the other way round.
 * *due_ms is brought forward to when it wants to be called again. */
bool group_members_tick(struct group_members *members, const struct routing *routing, int64_t *due_ms);

/* Whether a message to the group is for the port. */
bool group_members_want(const struct group_members *members, const struct bridge_port *port,
			const struct ktsn_address *group);
/* What the ports of a bridge are members of together, but for one of them (the tunnel's). */
void group_members_list(const struct group_members *members, int bridge_link_index, int but_link_index,
			struct group_list *list);

#endif
