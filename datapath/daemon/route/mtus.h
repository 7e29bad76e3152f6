/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MTUs that change while ktsnd runs: the uplink's, and those of pods' interfaces. What is asked for from then
 * on follows at once. Destinations that are known follow a moment later, and not more often than every 100
 * ms: a pod may change its own MTU as often as it likes.
 *
 * The uplink's counts up to what it was when ktsnd started, for which the buffers are made. Where a switch
 * does the tunnelling, what becomes of its links is its own business.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_MTUS_H
#define KTSN_DAEMON_MTUS_H

#include "routing_state.h"

/* A link has that MTU now; 0: it has gone. */
void mtu_changed(struct routing *routing, const struct namespace *ns, int link_index, uint32_t mtu_bytes);
/* The kernel dropped notifications of a namespace: asks for each link that counts, one by one, for a pod may
 * have any number of others. */
void mtus_reread(struct routing *routing, const struct namespace *ns);
/* Has the destinations follow. Returns ms until it wants to be called again, -1: not. */
int mtus_tick(struct routing *routing);

#endif
