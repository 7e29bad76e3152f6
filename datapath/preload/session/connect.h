/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Begin of sessions: connect, and fork.
 *
 * A process is in a pod with ktsnd if the application socket exists, even if nobody listens, or libktsn.so is
 * in its folder (decision 12).
 *
 * Callable from any thread.
 */
#ifndef KTSN_PRELOAD_CONNECT_H
#define KTSN_PRELOAD_CONNECT_H

#include "session.h"

/*
 * session_connect connects unless there is a session, which stays valid for the life of the process. 0, or
 *   -ENOTCONN   there is neither ktsnd's socket nor a pod's folder, and never was for this process or its
 *               parents
 *   -ETIMEDOUT  ktsnd has not answered, or is away: try again. The first call waits KTSN_APP_TIMEOUT_MS,
 *               later ones do not
 *   -errno      ktsnd has refused a ring
 */
int session_connect(struct session **session);

/* session_forked gives up the parent's session in the child, right after fork. */
void session_forked(void);

/* session_unanswered_count counts a timed message that was refused because ktsnd did not answer. ktsnd reads
 * the count from the next ring. */
void session_unanswered_count(void);

/* session_fd_is_internal returns whether the descriptor belongs to libktsn, not to the application. */
bool session_fd_is_internal(int fd);

/* session_next_internal_fd returns the lowest descriptor of libktsn at or above `fd`, or -1. */
int session_next_internal_fd(int fd);

#endif
