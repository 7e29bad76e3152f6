/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The distances between CLOCK_TAI and the clocks of applications, whose times are converted once: when a
 * message is taken from its ring. Any thread.
 */
#ifndef KTSN_LOOP_CLOCK_OFFSETS_H
#define KTSN_LOOP_CLOCK_OFFSETS_H

#include "layout.h"

#include <stdint.h>

/* What to add to a time on each clock to have it on CLOCK_TAI. */
struct clock_offsets {
	int64_t to_tai_ns[KTSN_CLOCKS];
};

/*
 * Reads the offsets. TAI - REALTIME is whole seconds and exact. TAI - MONOTONIC is measured between two
 * reads and rounded up by their distance (tens of ns), so that a converted time is never early.
 */
void clock_offsets_read(struct clock_offsets *offsets);

#endif
