/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a message ends: what is counted, traced and reported, once for all of its copies. Loop thread only.
 */
#ifndef KTSN_LOOP_MESSAGE_H
#define KTSN_LOOP_MESSAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct loop;
struct message;
struct sent_frame;

/* Counts a message that left. */
void message_sent(struct loop *loop, struct message *message, _Atomic uint64_t *lateness,
		  int64_t departed_tai_ns);
/* Whether a message that leaves with this lateness counts as clock-lost, too. */
bool message_clock_lost(const struct loop *loop, const struct message *message,
			const _Atomic uint64_t *lateness);
/* Counts a frame as drop-stale that was counted as sent. */
void message_withdrawn(struct loop *loop, const struct sent_frame *frame);
/* Counts a message that was dropped. */
void message_dropped(struct loop *loop, struct message *message, _Atomic uint64_t *reason);
/* Tells its application, if it wants to know. Once a message: the slot is the application's then. */
void message_report(struct loop *loop, struct message *message, const _Atomic uint64_t *reason);
/* Gives its slot and packet back, and retires what waited for it. */
void message_finish(struct loop *loop, struct message *message);

#endif
