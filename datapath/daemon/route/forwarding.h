/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where frames to a hardware address go that no endpoint of this node has: to a peer, or out of a port of the
 * sender's bridge, by the kernel's forwarding entries of bridge and tunnel.
 *
 *   the kernel's notifications --> forwarding_entry <-- forwarding_watch    of a destination
 *                                  (device, address)
 *
 * Only addresses that a destination watches have an entry, however many addresses a pod makes the kernel
 * learn. An entry is read from the kernel when its first watch begins, and follows notifications from then
 * on.
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

/* Replaces the watched address. All 0: none. */
void forwarding_watch_set(struct routing *routing, struct forwarding_watch *watch, int bridge_link_index,
			  int tunnel_link_index, const uint8_t mac[6]);
/* Whether an entry has changed, or may have, since forwarding_find(). */
bool forwarding_watch_changed(const struct routing *routing, const struct forwarding_watch *watch);
/* Returns the place of the address; permanent entries take precedence over learnt ones. Both fields are 0
 * when the place is unknown. */
struct forwarding_place forwarding_find(struct routing *routing, struct forwarding_watch *watch);

/* Takes a notification of the kernel. */
void forwarding_entry_changed(struct routing *routing, const struct rtnl_forwarding *state);
/* The kernel dropped notifications: each entry is read again when it is needed. */
void forwarding_reread(struct routing *routing);

/* All watches must have ended. */
void forwarding_fini(struct routing *routing);

#endif
