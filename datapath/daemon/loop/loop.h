/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop: takes messages from the rings, asks the shaper, sends.
 *
 * It has a thread of its own, real-time where allowed, which blocks only in its own sleep and never
 * allocates, logs or resolves an address. The control thread does everything that may take time, and passes
 * the results as commands (commands.h). The functions here are for the control thread unless they say
 * otherwise.
 *
 * The loop uses the ring's consumer, frame, shaper and port. All modules of the control thread use the loop.
 *
 * The control thread creates the objects of the loop. They belong to the loop from the command that announces
 * them, and return through loop_retired() when nothing of them is in flight any more.
 */
#ifndef KTSN_LOOP_LOOP_H
#define KTSN_LOOP_LOOP_H

#include "counters.h"
#include "journal.h"
#include "loop_objects.h"

#include <stdbool.h>

struct loop;

/* Returns the default mapping of eight classes (IEEE Std 802.1Q-2022 table 8-5): priority 0 is above 1. */
struct loop_classes loop_classes_default(void);

/* Creates the loop without starting it. 0 or -errno. */
int loop_create(struct loop **loop, const struct loop_config *config);

/* Starts the thread. A priority or processor that is not allowed is logged and reported in `scheduling`, and
 * is not an error. 0 or -errno. */
int loop_start(struct loop *loop, struct loop_scheduling *scheduling);

/*
 * Ends the thread and waits for it. Pending messages are not sent any more; they stay in their rings for a
 * successor, as do new ones. After this the control thread executes its commands itself; they take no
 * messages from rings and drop none.
 */
void loop_stop(struct loop *loop);
/* Stops the thread between two rounds, and lets it continue. loop_pause() returns when the thread stands
 * still. */
void loop_pause(struct loop *loop);
void loop_resume(struct loop *loop);
/* Frees the loop, which must have been stopped or never started. NULL is harmless. */
void loop_destroy(struct loop *loop);

/* Returns the objects that the loop has retired, as a list through `next`, or NULL. The eventfd becomes
 * readable when there are new ones. */
struct loop_object *loop_retired(struct loop *loop);
int loop_retired_fd(const struct loop *loop);

/* Returns the flows whose applications must be woken, the newest first. The caller reads and clears
 * NOTIFY_... in `notify` before it serves a flow, which may come again at once. The eventfd becomes readable
 * when there are any. Flows stay valid until the caller frees them. */
struct loop_flow *loop_notifications(struct loop *loop);
int loop_notifications_fd(const struct loop *loop);

const struct counters *loop_counters(const struct loop *loop);
/* Costs of rings, whatever is in them: how often the loop polled them, and how many thresholds of doorbells
 * it wrote. Any thread. */
struct loop_costs {
	uint64_t polls, doorbells_set;
};
struct loop_costs loop_costs(const struct loop *loop);

/* Sets how much of each period the kernel lets the thread run before it stops the thread; 0: it never stops
 * it. Any thread. */
void loop_budget_set(struct loop *loop, uint32_t runtime_us, uint32_t period_us);
/* Returns how the loop used it. Any thread. */
struct loop_budget_use loop_budget_use(const struct loop *loop);

struct departures *loop_departures(struct loop *loop);
struct trace *loop_trace(struct loop *loop);

/* Sets whether the uplink has a carrier. Without one, frames that are due are dropped (drop-port). Any
 * thread. */
void loop_link_set(struct loop *loop, bool carrying);

/* The uplink's port withdrew the last `frames` that it took. They are counted as drop-stale. Any thread. */
void loop_frames_withdrawn(struct loop *loop, uint32_t frames);

/* Starts a receiver of this node at the port onto its bridges, before the command that passes it to the loop.
 * *receiver is NULL if the port has no receivers or is NULL itself (port.h). 0 or -errno. */
int loop_receiver_begin(const struct loop *loop, uint32_t link_index, struct ktsn_port_receiver **receiver);
/* Ends a receiver that the loop has retired. */
void loop_receiver_end(const struct loop *loop, struct ktsn_port_receiver *receiver);
/* Holds all receivers while the loop stands still; a negative timeout: lets them continue. */
void loop_receivers_hold(const struct loop *loop, int64_t timeout_ns);
/* Any thread. */
struct ktsn_port_delivery_counts loop_delivery_counts(const struct loop *loop);

/* Returns the epoll set of the thread, for doorbells.h. */
int loop_epoll_fd(const struct loop *loop);

/* Returns how many messages were taken and neither sent nor dropped. */
uint32_t loop_pending(const struct loop *loop);

#endif
