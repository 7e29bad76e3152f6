/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a call waits for a ktsnd that does not answer, or is being restarted. The call's message must not
 * go to the kernel, which would send it early.
 *
 * The time (KTSN_APP_DAEMON_TIMEOUT_MS) counts from the first question that ktsnd did not answer, not from
 * each call. So an application that goes on sends at its own pace again, and each call returns the error. Any
 * thread.
 */
#ifndef KTSN_PRELOAD_DAEMON_TIMEOUT_H
#define KTSN_PRELOAD_DAEMON_TIMEOUT_H

#include <stdbool.h>
#include <stdint.h>

/* ktsnd did not answer a question; it answered. */
void daemon_silent(void);
void daemon_answered(void);

/* Until when (CLOCK_MONOTONIC) a call on the socket may wait: not at all if it may not block, at most for
 * SO_SNDTIMEO. */
int64_t daemon_deadline_ms(int fd, int flags);

/* Sleeps a little. 0: look again; -ETIMEDOUT: the deadline has passed; -EINTR: a signal came. No lock may be
 * held, so that other threads and signals come through. */
int daemon_wait(int64_t deadline_ms);

/* Whether a call on the socket may block; and for how long: SO_SNDTIMEO, or INT64_MAX. */
bool call_may_block(int fd, int flags);
int64_t call_send_timeout_ns(int fd);

#endif
