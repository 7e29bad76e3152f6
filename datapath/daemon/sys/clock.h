/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time. Inside ktsnd every time is CLOCK_TAI nanoseconds in an int64_t.
 *
 * Any thread. Part of sys: below all other modules.
 */
#ifndef KTSN_SYS_CLOCK_H
#define KTSN_SYS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_SECOND INT64_C(1000000000)

static inline int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

static inline int64_t clock_tai_ns(void)
{
	return clock_ns(CLOCK_TAI);
}

/* Returns CLOCK_MONOTONIC, for deadlines and intervals. */
static inline int64_t clock_monotonic_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000000;
}

/* Polls CLOCK_TAI until that time, or until the clock is set back. Returns the time. */
static inline int64_t clock_tai_spin(int64_t now_tai_ns, int64_t until_tai_ns)
{
	for (int64_t before_tai_ns = now_tai_ns; now_tai_ns < until_tai_ns && now_tai_ns >= before_tai_ns;) {
		before_tai_ns = now_tai_ns;
		now_tai_ns = clock_tai_ns();
	}
	return now_tai_ns;
}

/* The state of the kernel's clock (adjtimex(2)), as set by the program that disciplines it. */
struct clock_state {
	int tai_offset_s;  /* TAI - UTC */
	bool synchronized; /* not STA_UNSYNC */
	int64_t maximum_error_ns;
	int64_t estimated_error_ns;
	int64_t frequency_ppb; /* correction of the clock's own frequency */
	int64_t tick_ns;       /* added to the clock USER_HZ times a second */
};

/* Reads the state. All fields are zero, so not synchronized, after an error. */
void clock_state_read(struct clock_state *state);

#endif
