/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the node's clock is good enough for each network. The agent reports the error bound and the
 * requirements of networks. ktsnd adds the drift since the report, so that without an agent the clock is
 * trusted until its error bound exceeds the network's limit.
 *
 *    bound |          ......:.....> lost
 *          |    ....:       |
 *          |....            | max-error
 *          +----------------+---------> CLOCK_MONOTONIC
 *       reported
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_CLOCKS_H
#define KTSN_DAEMON_CLOCKS_H

#include "clock_state.h"
#include "process.h"

/* "unknown", "synchronized", "holdover", "unsynchronized"; "continue", "hold", "refuse". */
extern const char *const node_clock_state_names[NODE_CLOCK_STATES];
extern const char *const on_clock_loss_names[ON_LOSSES];

/* Sets the state of the clock at reported->reported_ns, which may come from a predecessor. */
void node_clock_set(struct node *node, const struct node_clock *reported);
/* Replaces the requirements of a network; NULL: none. The network need not have a pod on the node yet. 0,
 * -ENOMEM, or -EINVAL with *refusal filled in; after an error nothing has changed. */
int node_network_clock_set(struct node *node, uint32_t vni, const struct clock_need *need,
			   struct refusal *refusal);
void node_network_clocks_free(struct node *node);

/* Returns the error bound at that time on CLOCK_MONOTONIC; -1: not known. */
int64_t node_clock_bound_ns(const struct node_clock *reported, int64_t now_ns);

/* Applies the clocks of its networks to a pod that is new or has changed networks. */
void pod_clocks_apply(struct pod *pod);
/* Writes into the ring of the process which networks of its pod refuse messages. */
void process_refusals_set(const struct process *process);

/* Updates networks that have lost the clock. Returns ms until the next one may lose it, or -1. */
int clocks_tick(struct node *node);

/* ---- steps of CLOCK_TAI ----
 *
 * A step occurs when CLOCK_REALTIME or its offset from TAI is set. CLOCK_TAI and CLOCK_MONOTONIC are slewed
 * alike, so their difference changes only by steps.
 *
 * The kernel wakes the control thread when CLOCK_REALTIME is set. It does not report a new offset: the loop
 * wakes the control thread when it takes messages after that (loop/round.c), and each request of the control
 * socket does. */

/* If the kernel does not report steps, they are detected later. */
void clock_steps_watch(struct clock_steps *steps, struct events *events);
void clock_steps_end(struct clock_steps *steps, struct events *events);

/* Detects a step by a few readings of the clocks, which is cheap enough for each round of events. */
void clock_steps_check(struct clock_steps *steps);
/* Detects a step from a measured difference of the clocks. */
void clock_steps_take(struct clock_steps *steps, int64_t monotonic_to_tai_ns);

#endif
