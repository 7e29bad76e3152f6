/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the node's clock is good enough for each network. The agent says how good it is, and what networks
 * ask; ktsnd adds the drift since then, so that an agent that is away is believed for as long as the bound
 * of the error allows, and not longer.
 *
 *    bound |          ......:.....> lost
 *          |    ....:       |
 *          |....            | max-error
 *          +----------------+---------> CLOCK_MONOTONIC
 *         told
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

/* At told_ns; the state of a predecessor continues. */
void node_clock_set(struct node *node, const struct node_clock *told);
/* Replaces the requirements of a network; NULL: none. Allowed before the network has a pod here. 0, -ENOMEM,
 * or -EINVAL with *refusal filled in; after an error nothing has changed. */
int node_network_clock_set(struct node *node, uint32_t vni, const struct clock_need *need,
			   struct refusal *refusal);
void node_network_clocks_free(struct node *node);

/* The bound of the error at that time on CLOCK_MONOTONIC; -1: not known. */
int64_t node_clock_bound_ns(const struct node_clock *told, int64_t now_ns);

/* The pod has come, or is on other networks than before. */
void pod_clocks_apply(struct pod *pod);
/* Writes into the ring of the process which networks of its pod refuse messages. */
void process_refusals_set(const struct process *process);

/* Networks to which the clock is lost by now. Returns ms until the next may be, -1: none. */
int clocks_tick(struct node *node);

/* ---- steps of CLOCK_TAI ----
 *
 * The clock is set, or its offset from UTC is, whether or not messages wait. CLOCK_TAI and CLOCK_MONOTONIC
 * are slewed alike, so their distance changes only by steps.
 *
 * The kernel wakes the control thread when CLOCK_REALTIME is set. It does not report a new offset: the loop
 * wakes the control thread when it takes messages after that (loop/round.c), and each request of the control
 * socket does. */

/* Without the kernel's word steps are seen later. */
void clock_steps_watch(struct clock_steps *steps, struct events *events);
void clock_steps_end(struct clock_steps *steps, struct events *events);

/* Compares the clocks. A few readings of clocks: cheap enough for each round of events. */
void clock_steps_look(struct clock_steps *steps);
/* The same with their distance as it was measured. */
void clock_steps_take(struct clock_steps *steps, int64_t monotonic_to_tai_ns);

#endif
