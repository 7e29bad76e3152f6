/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replication lists: routes with several receivers. Groups, broadcast, and frames to a hardware address of
 * which nobody knows where it is.
 *
 * One copy goes to each peer of the network, and one out of each port of its bridge on this node but the
 * sender's own and the tunnel's: onto the bridge itself it would also go into the kernel's tunnel, and arrive
 * twice. The list follows peers and ports. Where a switch of this node does the tunnelling, it makes the
 * peers' copies too: it gets one.
 *
 * An address that means something on one link only (fe80::) is of one pod, whose hardware address its next
 * hop says; the copies then go to the peers alone, since a pod of this node would have been found.
 *
 * No message has more than LOOP_COPIES_MAX copies; who comes later gets none.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_REPLICATION_LISTS_H
#define KTSN_DAEMON_REPLICATION_LISTS_H

#include "route.h"

/* Makes the list of a route, whose frames are known but for the receivers. `sender` is the endpoint that it
 * leaves through. 0 or -errno. */
int replication_find(struct route *route, const struct endpoint *sender);
/* The same anew: peers or ports have changed. -ENOBUFS: not all receivers are in the list; or -errno. */
int replication_refind(struct route *route);
/* What the neighbours of the copies say now; returns the state of all together. */
enum loop_destination_state replication_apply(struct route *route);
/* What the loop has to know of it; NULL when out of memory. */
struct loop_replication *replication_copies(const struct route *route);
/* Neighbours have nothing to say about it any more. NULL is harmless here and below. */
void replication_observe_end(struct replication_list *list);
void replication_free(struct replication_list *list);

#endif
