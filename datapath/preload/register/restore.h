/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsnd was restarted: hands the ring back to its successor, with all that its messages refer to.
 *
 *   HAND_BACK -> FLOW_OPEN of each socket and DESTINATION of each address, under the numbers that they had
 *   -> RESUME
 *
 * Other threads go on filling the ring meanwhile. Any thread; one at a time restores, the others go on.
 */
#ifndef KTSN_PRELOAD_RESTORE_H
#define KTSN_PRELOAD_RESTORE_H

#include "session.h"

/* 0 when ktsnd has the ring, now or because another thread was faster. -errno when there is no ktsnd, or it
 * does not know this pod yet: to be tried again, but not at once. */
int restore(struct session *session);

#endif
