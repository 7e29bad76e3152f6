/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time-outs of calls while ktsnd does not answer, or is being restarted. Their messages must not go to the
 * kernel, which would send them early.
 *
 * The time-out (KTSN_APP_DAEMON_TIMEOUT_MS) starts with the first request that ktsnd did not answer, not with
 * each call. After it, each call returns the error at once. Callable from any thread.
 */
#ifndef KTSN_PRELOAD_DAEMON_TIMEOUT_H
#define KTSN_PRELOAD_DAEMON_TIMEOUT_H

#include <stdbool.h>
#include <stdint.h>

/* daemon_silent and daemon_answered note whether ktsnd answered a request. */
void daemon_silent(void);
void daemon_answered(void);

/* daemon_deadline_ms returns until when (CLOCK_MONOTONIC) a call on the socket may wait: now if it may not
 * block, and at most for SO_SNDTIMEO. */
int64_t daemon_deadline_ms(int fd, int flags);

/* daemon_wait sleeps for some milliseconds. 0: try again; -ETIMEDOUT: the deadline has passed; -EINTR: a
 * signal arrived. The caller holds no lock, so that other threads and signals are not blocked. */
int daemon_wait(int64_t deadline_ms);

/* call_may_block returns whether a call on the socket may block; call_send_timeout_ns for how long:
 * SO_SNDTIMEO, or INT64_MAX. */
bool call_may_block(int fd, int flags);
int64_t call_send_timeout_ns(int fd);

#endif
