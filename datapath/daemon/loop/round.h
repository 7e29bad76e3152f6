/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clocks that a round reads, and when it must end because something else is due. Loop thread only.
 */
#ifndef KTSN_LOOP_ROUND_H
#define KTSN_LOOP_ROUND_H

#include <stdbool.h>
#include <stdint.h>

struct clock_offsets;
struct loop;
struct quota;

/* Messages that are taken, or rings that are polled, before the clock is read again. */
enum { TAKE_AT_ONCE = 8 };
/* A clock that moved by less was measured a little differently (clock.h); adjtimex slews move all clocks
 * alike. */
enum { CLOCK_STEP_NS = 100000 };
/* Clock offsets are not read again for this long: reading them takes as long as taking a message. */
enum { OFFSETS_FRESH_NS = 10000 };

/*
 * Reads the offsets of all clocks. TAI - REALTIME is whole seconds and exact. TAI - MONOTONIC is measured
 * between two reads and rounded up by their distance (tens of ns), so that a converted time is never early.
 */
void clock_offsets_read(struct clock_offsets *offsets);
/* Returns the offsets at round.now_tai_ns, or fresh ones. */
const struct clock_offsets *loop_offsets(struct loop *loop);

/* Returns when the next frame may be given to a port; KTSN_SHAPER_NEVER: there is none. */
int64_t egress_departure_next(const struct loop *loop, int64_t now_tai_ns);
/* Whether the round must end: taking more messages of the pod would delay a departure, or commands have
 * waited for long. A departure of the same pod that is late already waits a little longer, because an earlier
 * message may still be in a ring. Reads the clock. */
bool round_must_end(struct loop *loop, const struct quota *quota);

#endif
