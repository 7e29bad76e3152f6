/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a call waits for a ktsnd that does not answer, or is being restarted. Its message must not leave without
 * ktsnd: by the kernel it would leave early.
 *
 * The time (KTSN_APP_PATIENCE_MS) counts from when ktsnd was first asked in vain, not from each call: so an application that goes on sends at
 * its pace again, and is told by each call. Any thread.
 */
#ifndef KTSN_PRELOAD_PATIENCE_H
#define KTSN_PRELOAD_PATIENCE_H

#include <stdint.h>

/* ktsnd was asked in vain; it answered. */
void patience_note_silence(void);
void patience_note_answer(void);

/* Until when (CLOCK_MONOTONIC, ms) a call on the socket may wait: not at all if it may not block, at most for SO_SNDTIMEO. */
int64_t patience_until_ms(int fd, int flags);

/* Sleeps a little. 0: look again; -ETIMEDOUT: the time is over; -EINTR: by a signal. No lock may be held, so that others
 * and signals come through. */
int patience_wait(int64_t until_ms);

/* Whether a call on the socket may block, and for how long then: SO_SNDTIMEO, or INT64_MAX. */
int patience_may_block(int fd, int flags);
int64_t patience_send_timeout_ns(int fd);

#endif
