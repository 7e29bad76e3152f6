/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks of libktsn and the relays. Any thread.
 */
#ifndef KTSN_CLIENT_CLOCK_H
#define KTSN_CLIENT_CLOCK_H

#include "kernel.h"

#include <stdint.h>
#include <time.h>

static inline int64_t clock_now_ns(clockid_t clock)
{
	struct timespec now = {0};

	(void)clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline int64_t monotonic_ns(void)
{
	return clock_now_ns(CLOCK_MONOTONIC);
}

/* monotonic_ms asks the kernel itself: timeouts end on time also where a library such as libfaketime
 * replaces clock_gettime(). */
static inline int64_t monotonic_ms(void)
{
	struct timespec now;

	(void)kernel_call(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* monotonic_coarse_ns is cheaper, and advances with the kernel's tick only. */
static inline int64_t monotonic_coarse_ns(void)
{
	return clock_now_ns(CLOCK_MONOTONIC_COARSE);
}

/* monotonic_deadline_ns adds a timeout to monotonic_ns(). INT64_MAX without a timeout, or for one that is too
 * long to be represented. */
static inline int64_t monotonic_deadline_ns(const struct timespec *timeout)
{
	int64_t deadline_ns;

	if (!timeout || __builtin_mul_overflow((int64_t)timeout->tv_sec, 1000000000, &deadline_ns) ||
	    __builtin_add_overflow(deadline_ns, (int64_t)timeout->tv_nsec + monotonic_ns(), &deadline_ns))
		return INT64_MAX;
	return deadline_ns;
}

static inline struct timespec timespec_of_ns(int64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

/* realtime_of_tai_ns returns the CLOCK_REALTIME of a time on CLOCK_TAI; between the two are whole seconds. */
static inline int64_t realtime_of_tai_ns(int64_t tai_ns)
{
	const int64_t second_ns = 1000000000;
	int64_t apart_ns = clock_now_ns(CLOCK_TAI) - clock_now_ns(CLOCK_REALTIME);

	return tai_ns - (apart_ns + second_ns / 2) / second_ns * second_ns;
}

#endif
