/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shaper in virtual time: messages are handed over and schedules requested at given times. Departures and
 * drops are printed in their order, as
 *
 *   departed ID TIME
 *   dropped ID TIME REASON
 *
 * with ktsnd's drop reasons. Messages in neither list at the end are held. Events are processed one by one: a
 * message that may leave when it is handed over leaves before the next one arrives, as with an application
 * that sends through the kernel. One thread.
 */
#ifndef KTSN_REPLAY_H
#define KTSN_REPLAY_H

#include "shaper.h"

enum { REPLAY_MESSAGES_MAX = 1024 };

struct replay_message {
	struct ktsn_shaper_packet shaper; /* first, so that its address is the message's */
	unsigned int id;
};

/* All zero except `config` before replay_start(). */
struct replay {
	struct ktsn_shaper_config config;
	struct ktsn_shaper *shaper; /* NULL: not started */
	struct ktsn_gates gates[2]; /* the current schedule, on which a change is based */
	unsigned int gates_current;
	int64_t now_tai_ns;
	unsigned int message_count;
	struct replay_message messages[REPLAY_MESSAGES_MAX];
};

/* Returns 0 or -ENOMEM. replay_fini() undoes it and may always be called. */
int replay_start(struct replay *replay);
void replay_fini(struct replay *replay);

/* Prints the events until this time, which is then `now`. -EINVAL if it is before `now`. */
int replay_advance(struct replay *replay, int64_t until_tai_ns);

/* Requests a checked schedule now. */
void replay_schedule(struct replay *replay, const struct ktsn_schedule *schedule);

/* Hands over a message now and assigns its order. -ENOSPC when there are too many. */
int replay_message(struct replay *replay, const struct replay_message *message);

#endif
