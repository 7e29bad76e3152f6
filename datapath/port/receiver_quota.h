/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much processor time a receiver may take of the node: a token bucket that fills with a share of the time
 * that passes. A frame is paid for when it is over, because nobody knows before what it costs; what is owed
 * has to be waited for. A frame that takes longer than KTSN_RECEIVER_CHEAP_NS is charged as many times as it
 * takes that long, because nothing else runs on its processor meanwhile:
 *
 *   takes     is charged   share of a processor, at 50 %
 *   10 us     10 us        50 %
 *   1 ms      10 ms        5 %
 *   20 ms     4 s          0.25 %
 *
 * Pure: `now` is an argument. One thread.
 */
#ifndef KTSN_PORT_RECEIVER_QUOTA_H
#define KTSN_PORT_RECEIVER_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

enum {
	KTSN_RECEIVER_CHEAP_NS = 100000,
	KTSN_RECEIVER_LONGEST_NS = 100000000, /* a frame counts as no longer than this */
	KTSN_RECEIVER_BURST_NS = 100000000,   /* what a receiver may take at once that took nothing before */
};

struct ktsn_receiver_quota {
	int64_t balance_ns; /* below 0: it owes */
	int64_t filled_ns;  /* the bucket was filled last, on CLOCK_MONOTONIC */
	uint32_t percent;   /* of a processor */
};

static inline void ktsn_receiver_quota_init(struct ktsn_receiver_quota *quota, uint32_t percent,
					    int64_t now_ns)
{
	*quota = (struct ktsn_receiver_quota){
		.balance_ns = KTSN_RECEIVER_BURST_NS, .filled_ns = now_ns, .percent = percent};
}

static inline void ktsn_receiver_quota_charge(struct ktsn_receiver_quota *quota, int64_t cost_ns)
{
	if (cost_ns > KTSN_RECEIVER_LONGEST_NS)
		cost_ns = KTSN_RECEIVER_LONGEST_NS;
	if (cost_ns > KTSN_RECEIVER_CHEAP_NS)
		cost_ns = cost_ns * cost_ns / KTSN_RECEIVER_CHEAP_NS;
	quota->balance_ns -= cost_ns;
}

/* For something that a frame can do without, and that therefore must never make one wait: only while half of
 * what it may take at once is there. */
static inline bool ktsn_receiver_quota_spare(const struct ktsn_receiver_quota *quota)
{
	return quota->balance_ns > KTSN_RECEIVER_BURST_NS / 2;
}

/* How long the next frame has to wait; 0: it need not. */
static inline int64_t ktsn_receiver_quota_wait_ns(struct ktsn_receiver_quota *quota, int64_t now_ns)
{
	quota->balance_ns += (now_ns - quota->filled_ns) * quota->percent / 100;
	quota->filled_ns = now_ns;
	if (quota->balance_ns > KTSN_RECEIVER_BURST_NS)
		quota->balance_ns = KTSN_RECEIVER_BURST_NS;
	return quota->balance_ns < 0 ? -quota->balance_ns * 100 / quota->percent + 1 : 0;
}

#endif
