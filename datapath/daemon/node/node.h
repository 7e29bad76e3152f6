/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Begins and ends what ktsnd knows of its node (node_state.h).
 *
 * Control thread. Part of node: above route, below handover and control.
 */
#ifndef KTSN_DAEMON_NODE_H
#define KTSN_DAEMON_NODE_H

#include "node_state.h"

/* Prepares an empty node; `loop` and `events` are the caller's. 0 or -errno. */
int node_init(struct node *node, struct events *events, struct loop *loop, const struct uplink *uplink,
	      const struct node_shaping *shaping, const struct quota_limits *limits, uint32_t ring_slots,
	      uint64_t ring_bytes_max);
/* Closes all sockets and endpoints, at the end of ktsnd. The loop has ended: messages that come until then
 * are not dropped for want of their endpoint. */
void node_close(struct node *node);
/* Frees what the loop held. Its thread must have ended. */
void node_fini(struct node *node);

/* Periodic work: neighbours to confirm, objects to free. Returns ms until it is due again, -1: not. */
int node_tick(struct node *node);

#endif
