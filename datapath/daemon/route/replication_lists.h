/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replication lists: routes with several receivers, for groups, broadcast, and frames to a hardware address
 * whose place is unknown.
 *
 * Each peer of the network gets a copy, and each port of its bridge on this node except the sender's own and
 * the tunnel's: a copy onto the bridge itself would also go into the kernel's tunnel and arrive twice. The
 * list is updated after changes of peers, their neighbours, and ports (destinations_tick). Where a switch of
 * this node does the tunnelling, it gets one copy and makes those of the peers too.
 *
 * Messages to a group whose members are known by their reports go only to peers and ports with members
 * (groups.h).
 *
 * A link-local address (fe80::) belongs to one pod, and the next hop has its hardware address. The copies go
 * only to peers, because a pod of this node would have been found.
 *
 * Frames to a hardware address whose place the kernel knows go only there (forwarding.h).
 *
 * No message has more than LOOP_COPIES_MAX copies; further receivers get none and are counted.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_REPLICATION_LISTS_H
#define KTSN_DAEMON_REPLICATION_LISTS_H

#include "route.h"

/* Creates the list of a route whose frames are complete except for the receivers. `sender` is the sending
 * endpoint. 0 or -errno. */
int replication_find(struct route *route, const struct endpoint *sender);
/* Takes the index of the sender's bridge. The list must be updated. */
void replication_bridge_set(struct route *route, const struct endpoint *sender);
/* Updates the list after a change of receivers. 1; 0: the list is the same; or -errno: the list is unchanged.
 */
int replication_refind(struct route *route);
/* Whether the list must be updated: the kernel has learnt or forgotten the receiver's place, or the next hop
 * has another hardware address. */
bool replication_outdated(const struct route *route);
/* Returns the state of all receivers together. */
enum loop_destination_state replication_state(const struct route *route);
/* Returns how many receivers get no copy because there are too many. */
uint32_t replication_left_out(const struct route *route);
/* Returns the list for the loop, or NULL when there is no memory. */
struct loop_replication *replication_copies(const struct route *route);
/* NULL is harmless. */
void replication_free(struct routing *routing, struct replication_list *list);

#endif
