/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of the shaper from the control socket: strategy, classes and gates. Both threads read the same
 * immutable copy of the gates. The control thread determines the time of a change.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_SHAPING_H
#define KTSN_DAEMON_SHAPING_H

#include "node_state.h"

int node_shaping_init(struct node *node, const struct node_shaping *shaping);
/* Sets a schedule. 0, -ENOMEM, or -EINVAL with *fault filled in; after an error the previous schedule stays.
 */
int node_schedule_set(struct node *node, const struct ktsn_schedule *schedule,
		      struct ktsn_schedule_fault *fault);
/* Allocates gates to be filled in; NULL when out of memory. */
struct loop_gates *gates_blank(void);
/* Replaces the node's gates, which it owns. */
void node_gates_set(struct node *node, struct loop_gates *gates);
void node_strategy_set(struct node *node, enum ktsn_strategy strategy);
void node_classes_set(struct node *node, const struct loop_classes *classes);

#endif
