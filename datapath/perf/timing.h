/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks as int64_t nanoseconds, and sleeping or spinning until a time. Any thread.
 */
#ifndef KTSN_PERF_TIMING_H
#define KTSN_PERF_TIMING_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define TIMING_NS_PER_S INT64_C(1000000000)

/* Returns 0 for a clock that the kernel does not have. */
int64_t timing_now_ns(clockid_t clock);

/* Returns at once when until_ns has passed. -EINTR when a signal came first, or another -errno. */
int timing_sleep_until(clockid_t clock, int64_t until_ns);

/*
 * Reads the clock repeatedly. Returns at once when until_ns has passed, and -EINTR as soon as `stopped`
 * returns true.
 */
int timing_spin_until(clockid_t clock, int64_t until_ns, bool (*stopped)(void));

/* Returns the first multiple of step_ns (> 0) at or after value_ns (>= 0); -EOVERFLOW when there is none. */
int timing_round_up(int64_t value_ns, int64_t step_ns, int64_t *rounded_ns);

struct timespec timing_timespec(int64_t value_ns);

/* Returns "tai", "realtime" or "monotonic"; NULL for any other clock. */
const char *timing_clock_name(clockid_t clock);

#endif
