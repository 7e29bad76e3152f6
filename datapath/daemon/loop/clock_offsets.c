/* SPDX-License-Identifier: Apache-2.0 */
#include "clock_offsets.h"

#include "clock.h"

enum { TRIES = 4 };

static int64_t realtime_to_tai_ns(void)
{
	int64_t difference_ns = clock_ns(CLOCK_TAI) - clock_ns(CLOCK_REALTIME);

	/* The reads lie less than half a second apart. */
	return (difference_ns + NS_PER_SECOND / 2) / NS_PER_SECOND * NS_PER_SECOND;
}

static int64_t monotonic_to_tai_ns(void)
{
	int64_t smallest_ns = INT64_MAX;

	/* The true offset is at most the difference; an interruption between the reads only raises it. */
	for (int i = 0; i < TRIES; i++) {
		int64_t monotonic_ns = clock_ns(CLOCK_MONOTONIC);
		int64_t difference_ns = clock_ns(CLOCK_TAI) - monotonic_ns;

		if (difference_ns < smallest_ns)
			smallest_ns = difference_ns;
	}
	return smallest_ns;
}

void clock_offsets_read(struct clock_offsets *offsets)
{
	offsets->to_tai_ns[KTSN_CLOCK_TAI] = 0;
	offsets->to_tai_ns[KTSN_CLOCK_REALTIME] = realtime_to_tai_ns();
	offsets->to_tai_ns[KTSN_CLOCK_MONOTONIC] = monotonic_to_tai_ns();
}
