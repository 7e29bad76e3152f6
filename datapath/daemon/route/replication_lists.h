/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replication lists: routes with several receivers. Groups, broadcast, and frames to a hardware address of
 * which nobody knows where it is.
 *
 * One copy goes to each peer of the network, and one out of each port of its bridge on this node but the
 * sender's own and the tunnel's: onto the bridge itself it would also go into the kernel's tunnel, and arrive
 * twice. The list follows peers, their neighbours, and ports (destinations_tick). Where a switch of this node
 * does the tunnelling, it makes the peers' copies too: it gets one.
 *
 * A group whose members are known by their reports goes only to peers and ports that have some (groups.h).
 *
 * An address that means something on one link only (fe80::) is of one pod, whose hardware address its next
 * hop says; the copies then go to the peers alone, since a pod of this node would have been found.
 *
 * Frames to a hardware address of which the kernel knows where it is go there alone (forwarding.h).
 *
 * No message has more than LOOP_COPIES_MAX copies; who comes later gets none, which is counted.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_REPLICATION_LISTS_H
#define KTSN_DAEMON_REPLICATION_LISTS_H

#include "route.h"

/* Makes the list of a route, whose frames are known but for the receivers. `sender` is the endpoint that it
 * leaves through. 0 or -errno. */
int replication_find(struct route *route, const struct endpoint *sender);
/* The same anew: receivers have changed. 1; 0: the list is as it was; or -errno, and then it is, too. */
int replication_refind(struct route *route);
/* Whether it should be made anew: the kernel has learnt, or forgotten, where the receiver is, or the next hop
 * has another hardware address. */
bool replication_outdated(const struct route *route);
/* Of all receivers together. */
enum loop_destination_state replication_state(const struct route *route);
/* Receivers that get none of the copies, because there are too many. */
uint32_t replication_left_out(const struct route *route);
/* What the loop has to know of it; NULL when out of memory. */
struct loop_replication *replication_copies(const struct route *route);
/* NULL is harmless. */
void replication_free(struct routing *routing, struct replication_list *list);

#endif
