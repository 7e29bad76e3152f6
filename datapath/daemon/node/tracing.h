/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sockets a trace follows. There is one trace at a time: a mark in the flows that it follows, which the
 * loop looks at, and in their rings, so that the library says when its calls begin. That is also asked for
 * where the strategy judges messages by it.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_TRACING_H
#define KTSN_DAEMON_TRACING_H

#include "flow.h"

/* 0, or -EINVAL with *refusal filled in; then nothing changed. */
int node_trace_start(struct node *node, const char *identity, uint64_t flow, struct refusal *refusal);
void node_trace_stop(struct node *node);
/* A flow is new. */
void flow_trace(const struct flow *flow);
/* Marks the ring and all flows of a process anew, or those of all. */
void process_trace(const struct process *process);
void processes_trace(const struct node *node);

#endif
