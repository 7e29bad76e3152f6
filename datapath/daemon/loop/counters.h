/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of ktsnd: one for each reason why a message did not leave, or not on time, so that
 *
 *   taken = sent + drops + pending        sent = on-time + late + untimed
 *
 * The loop thread writes them, any thread reads.
 */
#ifndef KTSN_LOOP_COUNTERS_H
#define KTSN_LOOP_COUNTERS_H

#include "schedule.h"

#include <stdatomic.h>
#include <stdint.h>

/* X(name, name on the control socket) */
#define KTSN_COUNTERS(X)                                                                                     \
	X(taken, "taken")                     /* messages taken from rings */                                \
	X(sent, "sent")                       /* given to the port */                                        \
	X(sent_bridge, "sent-bridge")         /* part of sent: to pods of this node */                       \
	X(on_time, "on-time")                 /* sent within the tolerance */                                \
	X(untimed, "untimed")                 /* sent without a requested time */                            \
	X(late_taken, "late-taken")           /* their time had passed when the application sent them */     \
	X(late_wakeup, "late-wakeup")         /* ktsnd was not awake, or busy, at their time */              \
	X(late_port, "late-port")             /* the port had no room at their time */                       \
	X(late_unresolved, "late-unresolved") /* waited for their destination's hardware address */          \
	X(late_gate, "late-gate")             /* the gate of their class was shut at their time */           \
	X(late_link, "late-link")             /* frames before them occupied the link at their time */       \
	X(late_clock, "late-clock")           /* waited while their network's clock was lost */              \
	X(drop_invalid, "drop-invalid")       /* the ring's contents made no sense */                        \
	X(drop_horizon, "drop-horizon")       /* further ahead than the pod's horizon */                     \
	X(drop_unresolved, "drop-unresolved") /* the neighbour did not answer */                             \
	X(drop_port,                                                                                         \
	  "drop-port") /* the port reported an error, or had no room for long, or its link is down */        \
	X(drop_receiver, "drop-receiver") /* the queue of their receiver, a pod of this node, was full */    \
	X(drop_closed, "drop-closed")     /* their endpoint or peer was removed */                           \
	X(drop_missed, "drop-missed")     /* etf: their time had passed when they were due */                \
	X(drop_txtime, "drop-txtime")     /* etf: their time had passed when they were taken, or was not */  \
	/* of the kind, deadline or not, that the strategy is for */                                         \
	X(drop_max_sdu, "drop-max-sdu")     /* larger than the queue-max-sdu of their class */               \
	X(drop_no_window, "drop-no-window") /* no window of their class is ever long enough */               \
	X(drop_source, "drop-source")       /* source address or priority is not allowed for the pod */      \
	X(drop_stale, "drop-stale") /* not taken by the port in time, or withdrawn by it (outcome.h);        \
				       untimed: too old at a take-over */                                    \
	X(drop_clock, "drop-clock") /* held for too long while the clock was lost, or refused */             \
	X(drop_no_association,                                                                               \
	  "drop-no-association")              /* encryption is required, and there is no key for the node */ \
	X(sealed, "sealed")                   /* encrypted frames */                                         \
	X(sealed_again, "sealed-again")       /* part of sealed: overtaken by another */                     \
	X(clear_preferred, "clear-preferred") /* frames that left in clear without a key */                  \
	X(clock_lost, "clock-lost")           /* sent while their network had lost the clock */              \
	X(uncertain, "uncertain")             /* departing when another ktsnd ended: not sent again */       \
	X(copies_sent, "copies-sent")         /* frames of messages to several receivers */                  \
	X(copies_dropped, "copies-dropped")   /* copies that did not leave */                                \
	X(copies_pruned, "copies-pruned")     /* not made: no member of the group there */                   \
	X(copies_left_out, "copies-left-out") /* not made: a message has no more than LOOP_COPIES_MAX */     \
	X(reports, "reports")                 /* drops that were reported */                                 \
	X(reports_lost, "reports-lost")       /* lost reports: the application does not read them */         \
	X(port_retries, "port-retries")       /* times that the port had no room */                          \
	X(frame_pool_empty, "frame-pool-empty") /* times that messages had to wait in the ring for memory */ \
	X(share_pending, "share-pending")       /* times that a pod had its limit of pending messages */     \
	X(share_rate, "share-rate")             /* times that a pod reached its message rate */              \
	X(share_doorbells, "share-doorbells")   /* times that a doorbell rang too often */                   \
	X(wakeups, "wakeups")                   /* times that the loop thread slept and woke */              \
	X(doorbells, "doorbells")               /* times that an application woke it */

/* Counters of one socket. */
struct flow_counters {
	_Atomic uint64_t taken;
	_Atomic uint64_t sent;
	_Atomic uint64_t late;
	_Atomic uint64_t dropped;
	_Atomic int64_t departure_error_ns; /* of the last departure */
};

/* Counters of one traffic class. */
struct class_counters {
	_Atomic uint64_t pending; /* goes down as well */
	_Atomic uint64_t sent;
	_Atomic uint64_t late;
	_Atomic uint64_t dropped;
	_Atomic uint64_t transmission_overrun; /* still on the link when their gate shut */
};

struct counters {
#define X(name, text) _Atomic uint64_t name;
	KTSN_COUNTERS(X)
#undef X
	struct class_counters classes[KTSN_CLASSES];
};

/* Counters in the rings, as written by the libraries of applications. */
struct library_counts {
	uint64_t kernel_path; /* timed messages that the pod's routes sent another way */
	uint64_t unanswered;  /* timed messages that were refused because ktsnd did not answer */
	uint64_t off_network; /* timed messages that were refused because they would have left off the network
			       */
};

/* One writer: no read-modify-write needed. */
static inline void counter_add(_Atomic uint64_t *counter, uint64_t count)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + count,
			      memory_order_relaxed);
}

static inline uint64_t counter_read(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

#endif
