/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

#include <sys/timex.h>

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

void clock_state_read(struct clock_state *state)
{
	/* The unit of `freq` is 2^-16 ppm, and of the errors microseconds. */
	enum { NS_PER_US = 1000, PPB_PER_PPM = 1000, FREQUENCY_ONE_PPM = 1 << 16 };
	struct timex kernel = {0};

	*state = (struct clock_state){0};
	if (adjtimex(&kernel) < 0)
		return;
	state->tai_offset_s = kernel.tai;
	state->synchronized = !(kernel.status & STA_UNSYNC);
	state->maximum_error_ns = (int64_t)kernel.maxerror * NS_PER_US;
	state->estimated_error_ns = (int64_t)kernel.esterror * NS_PER_US;
	state->frequency_ppb = (int64_t)kernel.freq * PPB_PER_PPM / FREQUENCY_ONE_PPM;
	state->tick_ns = (int64_t)kernel.tick * NS_PER_US;
}
