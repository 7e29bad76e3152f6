/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of a shaper, and its verdicts: what the shaper and its strategies share with their callers.
 */
#ifndef KTSN_SHAPER_SHAPER_CONFIG_H
#define KTSN_SHAPER_SHAPER_CONFIG_H

#include <stdint.h>

enum ktsn_strategy {
	KTSN_STRATEGY_TAS,
	KTSN_STRATEGY_STRICT_PRIORITY,
	KTSN_STRATEGY_ETF,
	KTSN_STRATEGY_ETF_DEADLINE,
	KTSN_STRATEGIES,
};

struct ktsn_shaper_config {
	enum ktsn_strategy strategy;
	uint64_t link_speed_bps; /* 0: unlimited, frames take no time */
	int64_t guard_band_ns;   /* between the end of a frame and the closing of its gate */
	int64_t delta_ns;        /* etf drops packets that are later than this */
	int64_t tolerance_ns;    /* packets that are later than this are late; etf-deadline drops them */
};

/* How to handle a dequeued packet. */
enum ktsn_verdict {
	KTSN_SEND,
	KTSN_DROP_MISSED,    /* etf: its time has passed */
	KTSN_DROP_NO_WINDOW, /* its gate never opens for long enough */
};

/* Returns how long a frame occupies the link, in ns, rounded up; 0 for a link without a speed. */
static inline int64_t ktsn_link_ns(uint64_t link_speed_bps, uint32_t wire_bytes)
{
	uint64_t bits_ns = (uint64_t)wire_bytes * 8 * 1000000000;

	return link_speed_bps ? (int64_t)((bits_ns + link_speed_bps - 1) / link_speed_bps) : 0;
}

#endif
