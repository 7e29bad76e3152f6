/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multicast groups: messages to one go to peers and ports that have members, as a switch does that listens to
 * IGMP and MLD (RFC 4541). Where it is not known who is a member, and of groups that a switch floods, they go
 * to all.
 *
 *   this node's pods -- reports --> its bridges --> members (group_members.h) --> announcements to each peer
 *   another's ktsnd -- announcement --+
 *   another's pods -- reports --------+--> packet socket at the uplink --> peer (group_peers.h)
 *
 * A node announces when something changed, again a second later, and every 30 s. It announces everything
 * until its pods have been asked, and says when it ends.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_GROUPS_H
#define KTSN_DAEMON_GROUPS_H

#include "events.h"
#include "group_members.h"
#include "peers.h"

struct groups {
	struct routing *routing;
	struct events *events;
	struct group_members members;
	struct event_source tap; /* packet socket at the uplink; fd -1: a switch does the tunnelling */
	bool look;               /* something has changed that may be announced */
	int64_t peers_due_ms;    /* when the next announcement is due, or a peer is forgotten */
	uint64_t random;
	struct group_packet packet; /* being read */
};

/* Opens its sockets, which takes a privilege. 0 or -errno. */
int groups_init(struct routing *routing, struct events *events);
/* Tells the peers that nothing is known of this node from now on. */
void groups_close(struct groups *groups);
void groups_fini(struct routing *routing);

/* The ports of bridges are others now. NULL is harmless, here and below. */
void groups_ports_changed(struct groups *groups);
/* The bridges' tables are. */
void groups_members_changed(struct groups *groups);
/* An announcement to a peer is due. */
void groups_peers_changed(struct groups *groups);
/* Does what is due. Returns ms until it wants to be called again, -1: not. */
int groups_tick(struct groups *groups);

/* Whether messages to a group go to the port, or the peer. True for a NULL group (broadcast, another
 * EtherType). */
bool groups_port_wants(const struct groups *groups, const struct bridge_port *port,
		       const struct ktsn_address *group);
bool groups_peer_wants(const struct groups *groups, const struct peer *peer,
		       const struct ktsn_address *group);

/* Returns what this node announces to the peers of a network now. */
void groups_own(const struct groups *groups, uint32_t vni, struct group_list *list);

#endif
