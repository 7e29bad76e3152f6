/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session with a ktsnd that lives. A dead ktsnd's ring is handed back to its successor (restore.h). Any
 * thread.
 */
#ifndef KTSN_PRELOAD_LIVENESS_H
#define KTSN_PRELOAD_LIVENESS_H

#include "session.h"

/* The session, connected or restored if need be. 0 or -errno as session_connect(). */
int session_get(struct session **session);

/*
 * After a message was put into the ring, or while waiting for space in it: looks for signs of life of
 * ktsnd, most often without a system call, and hands the ring back when ktsnd has been restarted.
 * `thoroughly`: ask the kernel whether the connection stands.
 */
void session_check(struct session *session, enum ktsn_clock clock, bool thoroughly);

#endif
