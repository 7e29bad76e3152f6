/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop: takes messages from the rings, asks the shaper, sends.
 *
 * Thread: its own, real-time where allowed. It blocks only in its own sleep, and never allocates, logs or
 * resolves an address. The control thread does what may take time, and hands the results over as commands
 * (commands.h). The functions here are the control thread's, unless they say otherwise.
 *
 * Place: above the ring's consumer, frame, shaper and port, below all modules of the control thread.
 *
 * Objects that the loop uses are made by the control thread. They belong to the loop from the command that
 * announces them, and come back through loop_retired() when nothing of them is in flight any more.
 */
#ifndef KTSN_LOOP_LOOP_H
#define KTSN_LOOP_LOOP_H

#include "counters.h"
#include "journal.h"
#include "loop_objects.h"

#include <stdbool.h>

struct loop;

/* Classes by IEEE Std 802.1Q-2022 table 8-5, for eight of them: priority 0 is above 1. */
struct loop_classes loop_classes_default(void);

/* Makes the loop, not yet running. 0 or -errno. */
int loop_create(struct loop **loop, const struct loop_config *config);

/* Starts its thread. What is not allowed (priority, pinning) is warned about and reported, not fatal.
 * 0 or -errno. */
int loop_start(struct loop *loop, struct loop_scheduling *scheduling);

/*
 * Ends the thread and waits for it. Messages that it holds are not sent any more, and stay in their rings for
 * a successor, as do those that come. Commands of the control thread are executed at once from here on; no
 * ring is taken from and nothing is dropped for them.
 */
void loop_stop(struct loop *loop);
/* Holds the thread between two rounds, and lets it go on. Returns when it stands. Control thread. */
void loop_pause(struct loop *loop);
void loop_resume(struct loop *loop);
/* Frees the loop, which must have been stopped or never started. NULL is harmless. */
void loop_destroy(struct loop *loop);

/* Objects that the loop is done with, as a list through `next`; NULL when there are none. An eventfd that
 * becomes readable when there are new ones. Control thread. */
struct loop_object *loop_retired(struct loop *loop);
int loop_retired_fd(const struct loop *loop);

/* Flows whose applications are to be woken, the last first: each with NOTIFY_... in `notify`, to be read and
 * cleared before it is served (it may come again at once). Readable when there are any. They stay valid until
 * they are freed, which only the caller does. */
struct loop_flow *loop_notifications(struct loop *loop);
int loop_notifications_fd(const struct loop *loop);

const struct counters *loop_counters(const struct loop *loop);
/* What rings cost, whatever is in them: how often the loop polled them, and thresholds of doorbells written.
 * Any thread. */
struct loop_costs {
	uint64_t polls, doorbells_set;
};
struct loop_costs loop_costs(const struct loop *loop);

/* What the kernel lets the loop's thread use of each period before it stops the thread; it may change. 0: the
 * kernel stops nobody. Any thread. */
void loop_budget_set(struct loop *loop, uint32_t runtime_us, uint32_t period_us);
/* What the loop made of that. Any thread. */
struct loop_budget_use loop_budget_use(const struct loop *loop);

struct departures *loop_departures(struct loop *loop);
struct trace *loop_trace(struct loop *loop);

/* Whether the uplink carries frames. While it does not, what is due is dropped (drop-port). Any thread. */
void loop_link_set(struct loop *loop, bool carrying);

/* The uplink's port withdrew the last `frames` that it took: they count as drop-stale. Any thread. */
void loop_frames_withdrawn(struct loop *loop, uint32_t frames);

/* Receivers of this node: of the port onto its bridges, which may have none, or be NULL (port.h). One begins
 * with 0, NULL where there are none, or -errno, before the command that gives it to the loop. */
int loop_receiver_begin(const struct loop *loop, uint32_t link_index, struct ktsn_port_receiver **receiver);
/* One that the loop has retired. */
void loop_receiver_end(const struct loop *loop, struct ktsn_port_receiver *receiver);
/* While the loop stands still; below 0: they go on. */
void loop_receivers_hold(const struct loop *loop, int64_t timeout_ns);
/* Any thread. */
struct ktsn_port_delivery_counts loop_delivery_counts(const struct loop *loop);

/* The epoll set of its thread, for those of doorbells.h. */
int loop_epoll_fd(const struct loop *loop);

/* Messages taken and neither sent nor dropped. */
uint32_t loop_pending(const struct loop *loop);

#endif
