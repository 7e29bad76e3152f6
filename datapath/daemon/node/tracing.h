/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets that a trace follows. There is one trace at a time: a mark in its flows, which the loop reads,
 * and in their rings, so that the library records when its calls begin. Strategies that need these times set
 * the mark in rings as well.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_TRACING_H
#define KTSN_DAEMON_TRACING_H

#include "flow.h"

/* Starts a trace, of one pod or one flow if given. 0, or -EINVAL with *refusal filled in; after an error
 * nothing has changed. */
int node_trace_start(struct node *node, const char *identity, uint64_t flow, struct refusal *refusal);
void node_trace_stop(struct node *node);
/* Marks a new flow. */
void flow_trace(const struct flow *flow);
/* Update the marks in the ring and all flows of a process, or of all processes. */
void process_trace(const struct process *process);
void processes_trace(const struct node *node);

#endif
