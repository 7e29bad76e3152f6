/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of MTUs while ktsnd runs: the uplink's, and those of pods' interfaces. New destinations use them at
 * once. Existing destinations are updated a moment later, at most every 100 ms, because a pod may change its
 * own MTU any number of times.
 *
 * The uplink's MTU is used up to its value at the start of ktsnd, for which the buffers are made. It is not
 * followed where a switch does the tunnelling.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_MTUS_H
#define KTSN_DAEMON_MTUS_H

#include "routing_state.h"

/* The MTU of a link has changed; 0: the link is gone. */
void mtu_changed(struct routing *routing, const struct namespace *ns, int link_index, uint32_t mtu_bytes);
/* The kernel dropped notifications of a namespace: reads the MTUs of its endpoints one by one, because a pod
 * may have any number of other links. */
void mtus_reread(struct routing *routing, const struct namespace *ns);
/* Updates destinations when due. Returns ms until it must be called again, or -1. */
int mtus_tick(struct routing *routing);

#endif
