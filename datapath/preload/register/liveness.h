/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the session connected to a ktsnd that is alive. After a restart of ktsnd it hands the ring back to
 * the successor, with everything that its messages refer to:
 *
 *   HAND_BACK -> FLOW_OPEN of each socket and DESTINATION of each address, under the numbers that they had
 *   -> RESUME
 *
 * Other threads continue to fill the ring meanwhile. Callable from any thread; one at a time restores, the
 * others continue.
 */
#ifndef KTSN_PRELOAD_LIVENESS_H
#define KTSN_PRELOAD_LIVENESS_H

#include "session.h"

/* session_get returns the session, connected or restored if need be. 0 or -errno as session_connect(). */
int session_get(struct session **session);

/*
 * session_check looks for signs of life of ktsnd after a message was put into the ring, or while waiting for
 * space in it, most often without a system call. It hands the ring back when ktsnd has been restarted. With
 * `thoroughly` it asks the kernel whether the connection stands.
 */
void session_check(struct session *session, enum ktsn_clock clock, bool thoroughly);

#endif
