/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multicast groups. Messages to a group go to peers and ports with members, like in a switch with IGMP and
 * MLD snooping (RFC 4541). They go to all where the members are unknown, and for groups that a switch floods.
 *
 *   this node's pods -- reports --> its bridges --> members (group_members.h) --> announcements to each peer
 *   another's ktsnd -- announcement --+
 *   another's pods -- reports --------+--> packet socket at the uplink --> peer (group_peers.h)
 *
 * A node announces its groups when they change, again a second later, and every 20 s. It announces all groups
 * until its pods have answered queries, and sends a last announcement when it ends.
 *
 * A second packet socket receives announcements at the tunnels. If an announcement arrives at the uplink
 * only, this node has dropped it, and drops messages to its pods (struct peer_health).
 *
 * Announcements to nodes of encrypted networks are encrypted by the loop, and decrypted by the kernel before
 * the tunnel. They name no groups: messages to groups go to all nodes there.
 *
 * With Open vSwitch announcements leave by its interface, as packets of the node, and flows pass received
 * ones to the networks' links (struct rtnl_link), where the second socket is the only one. The node
 * announces all groups, because other ports of the switch may have members, and ignores those of its peers,
 * because the switch chooses the receivers.
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
	struct event_source tap;        /* packet socket at the uplink; fd -1: a switch does the tunnelling */
	struct event_source tunnel_tap; /* at the tunnels, or at the links into the switch */
	bool changed;                   /* this node's groups may have changed since networks_update() */
	int64_t filter_due_ms; /* when the filter of tunnel_tap is set again, which failed; 0: it did not */
	int64_t peers_due_ms;  /* when the next announcement is due, or the groups of a peer expire */
	uint64_t random;
	struct group_packet packet; /* the received packet */
};

/* Opens the sockets, which needs CAP_NET_RAW. 0 or -errno. */
int groups_init(struct routing *routing, struct events *events);
/* Announces to the peers that the groups of this node are unknown from now on. */
void groups_close(struct groups *groups);
void groups_fini(struct routing *routing);

/* The ports of bridges have changed. NULL is harmless, here and below. */
void groups_ports_changed(struct groups *groups);
/* The bridges' multicast tables have changed. */
void groups_members_changed(struct groups *groups);
/* Peers have been added: their first announcement is due. */
void groups_peers_changed(struct groups *groups);
/* The encryption of a network has changed: announcements to its peers are due. */
void groups_encryption_changed(struct groups *groups, uint32_t vni);
/* Reads bridges and sends queries and announcements that are due. Returns ms until it must be called again,
 * or -1. */
int groups_tick(struct groups *groups);

/* Whether messages to a group go to the port, or the peer. True for a NULL group (broadcast, another
 * EtherType). */
bool groups_port_wants(const struct groups *groups, const struct bridge_port *port,
		       const struct ktsn_address *group);
bool groups_peer_wants(const struct groups *groups, const struct peer *peer,
		       const struct ktsn_address *group);

/* Fills in the groups that this node announces to the peers of a network. */
void groups_local(const struct groups *groups, uint32_t vni, struct group_list *list);

#endif
