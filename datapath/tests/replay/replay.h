/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shaper in virtual time: messages are handed over and schedules asked for at given times, and what
 * leaves or is dropped is printed, in its order, as
 *
 *   departed ID TIME
 *   dropped ID TIME REASON
 *
 * with the reasons that ktsnd counts. What is in neither list at the end is held. One event after the other:
 * what may leave when a message is handed over leaves before the next one comes, as with an application that
 * sends through the kernel. One thread.
 */
#ifndef KTSN_REPLAY_H
#define KTSN_REPLAY_H

#include "shaper.h"

enum { REPLAY_MESSAGES_MAX = 1024 };

struct replay_message {
	struct ktsn_shaper_packet shaper; /* first, so that its address is the message's */
	unsigned int id;
};

/* All zero but for `config` before replay_start(). */
struct replay {
	struct ktsn_shaper_config config;
	struct ktsn_shaper *shaper; /* NULL: not started */
	struct ktsn_gates gates[2]; /* a change makes one from the other */
	unsigned int gates_current;
	int64_t now_tai_ns;
	unsigned int message_count;
	struct replay_message messages[REPLAY_MESSAGES_MAX];
};

/* 0 or -ENOMEM. replay_fini() undoes it, and may be called in any case. */
int replay_start(struct replay *replay);
void replay_fini(struct replay *replay);

/* Prints what happens until this time, which is `now` from then on. -EINVAL when it is before `now`. */
int replay_advance(struct replay *replay, int64_t until_tai_ns);

/* A schedule that was checked is asked for now. */
void replay_schedule(struct replay *replay, const struct ktsn_schedule *schedule);

/* A message is handed over now; its order is given here. -ENOSPC when there are too many. */
int replay_message(struct replay *replay, const struct replay_message *message);

#endif
