/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of CLOCK_TAI, whether or not messages wait: it is set, or its offset from UTC is. CLOCK_TAI and
 * CLOCK_MONOTONIC are slewed alike, so that their distance changes by steps only.
 *
 * The kernel wakes the control thread when CLOCK_REALTIME is set. Of an offset that is set it says nothing:
 * the loop wakes the control thread when it takes messages after that (loop/clock_changes.c), and each
 * request of the control socket does. Control thread.
 */
#ifndef KTSN_DAEMON_CLOCK_STEPS_H
#define KTSN_DAEMON_CLOCK_STEPS_H

#include "clock_state.h"

/* Without the kernel's word steps are seen later. */
void clock_steps_watch(struct clock_steps *steps, struct events *events);
void clock_steps_end(struct clock_steps *steps, struct events *events);

/* Compares the clocks. A few readings of clocks: cheap enough for each round of events. */
void clock_steps_look(struct clock_steps *steps);
/* The same with their distance as it was measured. */
void clock_steps_take(struct clock_steps *steps, int64_t monotonic_to_tai_ns);

#endif
