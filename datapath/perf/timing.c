/* SPDX-License-Identifier: Apache-2.0 */
#include "timing.h"

#include <errno.h>
#include <stddef.h>

int64_t timing_now_ns(clockid_t clock)
{
	struct timespec now = {0};

	clock_gettime(clock, &now);
	return now.tv_sec * TIMING_NS_PER_S + now.tv_nsec;
}

struct timespec timing_timespec(int64_t value_ns)
{
	return (struct timespec){.tv_sec = value_ns / TIMING_NS_PER_S, .tv_nsec = value_ns % TIMING_NS_PER_S};
}

int timing_sleep_until(clockid_t clock, int64_t until_ns)
{
	struct timespec until = timing_timespec(until_ns);

	return -clock_nanosleep(clock, TIMER_ABSTIME, &until, NULL);
}

int timing_spin_until(clockid_t clock, int64_t until_ns, bool (*stopped)(void))
{
	while (timing_now_ns(clock) < until_ns) {
		if (stopped())
			return -EINTR;
	}
	return 0;
}

int timing_round_up(int64_t value_ns, int64_t step_ns, int64_t *rounded_ns)
{
	int64_t remainder_ns = value_ns % step_ns;

	*rounded_ns = value_ns;
	if (remainder_ns == 0)
		return 0;
	return __builtin_add_overflow(value_ns, step_ns - remainder_ns, rounded_ns) ? -EOVERFLOW : 0;
}

const char *timing_clock_name(clockid_t clock)
{
	switch (clock) {
	case CLOCK_TAI:
		return "tai";
	case CLOCK_REALTIME:
		return "realtime";
	case CLOCK_MONOTONIC:
		return "monotonic";
	default:
		return NULL;
	}
}
