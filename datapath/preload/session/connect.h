/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that begin: connect, and fork.
 *
 * A process is meant for ktsnd where there is the application socket, whoever listens, or libktsn.so beside
 * it, as in a pod (decision 12).
 *
 * Any thread.
 */
#ifndef KTSN_PRELOAD_CONNECT_H
#define KTSN_PRELOAD_CONNECT_H

#include "session.h"

/*
 * Connects, if there is no session by now. The session stays valid for the life of the process. 0, or
 *   -ENOTCONN   there is neither ktsnd's socket nor a pod's folder, and never was for this process or its
 *               parents
 *   -ETIMEDOUT  ktsnd has not answered, or is away: ask again. The first call waits KTSN_APP_TIMEOUT_MS,
 *               later ones do not
 *   -errno      why ktsnd, which answered, has no ring for this process
 */
int session_connect(struct session **session);

/* In the child, right after fork: the parent's session stays the parent's. */
void session_forked(void);

/* Counts a timed message that was refused because ktsnd did not answer. ktsnd reads the count in the next
 * ring. */
void session_unanswered_count(void);

/* Whether the descriptor is one of libktsn's own, which the application has no business with. */
bool session_fd_is_internal(int fd);

/* The lowest of libktsn's own descriptors at or above `fd`, or -1. */
int session_next_internal_fd(int fd);

#endif
