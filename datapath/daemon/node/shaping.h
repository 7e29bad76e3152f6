/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When frames leave, as the control socket has it: strategy, classes, and the gates, of which both threads
 * read the same immutable copy. What time it is when a change is asked for, the control thread decides.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_SHAPING_H
#define KTSN_DAEMON_SHAPING_H

#include "node_state.h"

int node_shaping_init(struct node *node, const struct node_shaping *shaping);
/* 0, -ENOMEM, or -EINVAL with *fault filled in; then the schedule before goes on. */
int node_schedule_set(struct node *node, const struct ktsn_schedule *schedule,
		      struct ktsn_schedule_fault *fault);
/* Gates to be filled in, NULL when out of memory; and those that are in effect from now on, which become the
 * node's. */
struct loop_gates *gates_blank(void);
void node_gates_set(struct node *node, struct loop_gates *gates);
void node_strategy_set(struct node *node, enum ktsn_strategy strategy);
void node_classes_set(struct node *node, const struct loop_classes *classes);

#endif
