/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token bucket: each message takes one token, ten are added a second, and it holds twenty. Pure.
 */
#ifndef KTSN_SYS_LOG_LIMIT_H
#define KTSN_SYS_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

enum { LOG_LIMIT_BURST = 20, LOG_LIMIT_INTERVAL_NS = 100000000 };

/* All zero at first: the bucket is full. */
struct log_limit {
	int64_t empty_until_ns; /* the bucket fills from here on */
	uint64_t suppressed;    /* messages since the last one that was allowed */
};

/* Whether a message may be written now; counts it as suppressed if not. */
static inline bool log_limit_take(struct log_limit *limit, int64_t now_ns)
{
	const int64_t full_ns = (int64_t)LOG_LIMIT_BURST * LOG_LIMIT_INTERVAL_NS;

	if (limit->empty_until_ns < now_ns - full_ns)
		limit->empty_until_ns = now_ns - full_ns;
	if (limit->empty_until_ns > now_ns - LOG_LIMIT_INTERVAL_NS) {
		limit->suppressed++;
		return false;
	}
	limit->empty_until_ns += LOG_LIMIT_INTERVAL_NS;
	return true;
}

/* Whether the bucket is full again: nothing was written for as long as that takes. */
static inline bool log_limit_full(const struct log_limit *limit, int64_t now_ns)
{
	return limit->empty_until_ns <= now_ns - (int64_t)LOG_LIMIT_BURST * LOG_LIMIT_INTERVAL_NS;
}

#endif
