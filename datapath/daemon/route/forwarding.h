/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where frames to a hardware address go that is no endpoint's of this node: behind a peer, or out of a port
 * of the sender's bridge, as the kernel's forwarding entries say of bridge and tunnel.
 *
 *   the kernel's notifications --> forwarding_entry <-- forwarding_watch    of a destination
 *                                  (device, address)
 *
 * Only entries of addresses that a destination watches are known here: a pod that has the kernel learn any
 * number of addresses makes none. An entry is asked for when its first watch begins, and follows the kernel's
 * notifications from then on.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_FORWARDING_H
#define KTSN_DAEMON_FORWARDING_H

#include "routing_state.h"
#include "rtnl_bridge.h"

struct forwarding_entry;

/* A watch on an address in the tables of a bridge and its tunnel. All 0: no watch. */
struct forwarding_watch {
	uint8_t mac[6];
	int bridge_link_index, tunnel_link_index; /* 0: there is none */
	struct forwarding_entry *bridge, *tunnel; /* NULL: there is no such device, or no memory */
	uint32_t bridge_seen, tunnel_seen;        /* versions of the entries */
};

struct forwarding_place {
	int port_link_index; /* of the bridge; 0: none */
	uint32_t remote_be;  /* 0: none */
};

/* Watches this address from here on, and no other. All 0: none. */
void forwarding_watch_set(struct routing *routing, struct forwarding_watch *watch, int bridge_link_index,
			  int tunnel_link_index, const uint8_t mac[6]);
/* Whether an entry has changed, or may have, since forwarding_find(). */
bool forwarding_watch_changed(const struct routing *routing, const struct forwarding_watch *watch);
/* Where the address is; entries for good count before learnt ones. Nowhere: both are 0. */
struct forwarding_place forwarding_find(struct routing *routing, struct forwarding_watch *watch);

/* The kernel's entries. */
void forwarding_entry_changed(struct routing *routing, const struct rtnl_forwarding *entry);
/* It dropped notifications: each entry is asked for again when it is needed. */
void forwarding_reread(struct routing *routing);

/* Nothing is watched any more. */
void forwarding_fini(struct routing *routing);

#endif
