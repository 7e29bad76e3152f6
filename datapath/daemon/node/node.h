/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Set-up, periodic work and tear-down of the node's state (node_state.h).
 *
 * Control thread. Part of node: above route, below handover and control.
 */
#ifndef KTSN_DAEMON_NODE_H
#define KTSN_DAEMON_NODE_H

#include "node_state.h"

/* Initialises an empty node; `loop` and `events` belong to the caller. 0 or -errno. */
int node_init(struct node *node, struct events *events, struct loop *loop, const struct uplink *uplink,
	      const struct node_shaping *shaping, const struct quota_limits *limits, uint32_t ring_slots,
	      uint64_t ring_bytes_max);
/* Closes all sockets and endpoints. The loop must have ended, or it would drop messages for lack of their
 * endpoint. */
void node_close(struct node *node);
/* Frees all objects of the loop, whose thread must have ended. */
void node_fini(struct node *node);

/* Does periodic work, such as confirming neighbours and freeing objects. Returns ms until it is due again, or
 * -1. */
int node_tick(struct node *node);

#endif
