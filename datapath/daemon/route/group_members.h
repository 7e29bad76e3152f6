/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ports of this node's bridges are members of which groups. The bridges listen to the reports of pods
 * (IGMP, MLD) and forget members that do not report again. ktsnd reads their tables, and queries the pods
 * often enough, out of each port and not onto the bridge. The bridges themselves and other nodes see no
 * querier, so that the kernel's forwarding does not change.
 *
 *   port comes -----> query, query ----> learnt        until then it gets all groups
 *   every 125 s ----> query                            memberships last 260 s
 *   bridge forgets -> query, 3 s ------> no member     another host at the port may still be one
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
	bool router; /* wants all groups; `group` is unspecified */
	struct ktsn_address group;
	int64_t until_ms; /* when it ends, because the bridge has forgotten it; 0: the bridge has it */
};

/* A port of a network's bridge, to a pod. */
struct group_port {
	int link_index, bridge_link_index;
	uint8_t queries; /* sent since the port came, at most FIRST_QUERIES */
	bool learnt;
	int64_t query_ms; /* when the next query is due, on CLOCK_MONOTONIC */
	int64_t learnt_ms;
};

struct group_bridge {
	int link_index;
	bool snooping; /* multicast snooping is on, and its table could be read */
	bool ready;    /* all pods that it had at first have answered */
	int64_t ready_ms;
};

struct group_members {
	int send_fd;
	bool changed;                 /* the bridges' tables have changed since they were read */
	int64_t read_from_ms;         /* earliest time of the next read after a change */
	int64_t read_by_ms;           /* latest time of the next read */
	struct group_member *members; /* sorted */
	struct group_port *ports;
	struct group_bridge *bridges;
	uint32_t count, port_count, bridge_count;
};

/* 0 or -errno. */
int group_members_init(struct group_members *members);
void group_members_fini(struct group_members *members);

/* The ports of bridges have changed. */
void group_members_ports_changed(struct group_members *members, const struct routing *routing);
/* Reads bridges and queries ports when due. Returns whether members have changed. *due_ms becomes earlier if
 * it must be called again before. */
bool group_members_tick(struct group_members *members, const struct routing *routing, int64_t *due_ms);

/* Whether a message to the group is for the port. */
bool group_members_want(const struct group_members *members, const struct bridge_port *port,
			const struct ktsn_address *group);
/* Lists the groups of all ports of a bridge except one, the tunnel's. */
void group_members_list(const struct group_members *members, int bridge_link_index, int except_link_index,
			struct group_list *list);

#endif
