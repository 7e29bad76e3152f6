/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that a round of the loop may spend before something else is due. Loop thread only.
 */
#ifndef KTSN_LOOP_ROUND_H
#define KTSN_LOOP_ROUND_H

#include <stdbool.h>

struct loop;
struct quota;

/* So many messages are taken, or rings polled, before the clock is read: */
enum { TAKE_AT_ONCE = 8 };

/* Whether the round must end: so little is left until a departure that taking more of the pod would delay the
 * departure, or commands have waited for long. One of the same pod that is late already waits a little more:
 * an earlier message may still be in a ring. Reads the clock. */
bool round_must_end(struct loop *loop, const struct quota *quota);

#endif
