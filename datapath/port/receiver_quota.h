/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processor time that a receiver may use: a token bucket that fills with a share of the time that passes.
 * A frame is charged after it was sent, because its cost is not known before. While the balance is negative
 * the receiver waits. The charge of a frame that takes longer than KTSN_RECEIVER_CHEAP_NS is multiplied by
 * the ratio of both, because nothing else runs on its processor meanwhile:
 *
 *   takes     is charged   share of a processor, at 50 %
 *   10 us     10 us        50 %
 *   1 ms      10 ms        5 %
 *   20 ms     4 s          0.25 %
 *
 * Interrupts of the machine while a frame is sent are part of its time. A network card's packets are received
 * in soft interrupts, as the frame itself is, and no counter of the kernel separates the two. The kernel ends
 * a run of soft interrupts after some 2 ms and leaves the rest to ksoftirqd, whose time is not charged; such
 * a run is charged 40 ms. docs/internals/decisions/0020 has measurements.
 *
 * Pure: `now` is an argument. One thread.
 */
#ifndef KTSN_PORT_RECEIVER_QUOTA_H
#define KTSN_PORT_RECEIVER_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

enum {
	KTSN_RECEIVER_CHEAP_NS = 100000,
	KTSN_RECEIVER_LONGEST_NS = 100000000, /* at most this is counted for a frame */
	KTSN_RECEIVER_BURST_NS = 100000000,   /* the most that the bucket holds */
};

struct ktsn_receiver_quota {
	int64_t balance_ns; /* negative: the receiver waits */
	int64_t filled_ns;  /* when the bucket was filled last, on CLOCK_MONOTONIC */
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

/* Whether optional work may be done for the receiver: only while the bucket is half full, so that the work
 * never makes a frame wait. */
static inline bool ktsn_receiver_quota_spare(const struct ktsn_receiver_quota *quota)
{
	return quota->balance_ns > KTSN_RECEIVER_BURST_NS / 2;
}

/* Fills the bucket, and returns how long the next frame has to wait; 0: not at all. */
static inline int64_t ktsn_receiver_quota_wait_ns(struct ktsn_receiver_quota *quota, int64_t now_ns)
{
	quota->balance_ns += (now_ns - quota->filled_ns) * quota->percent / 100;
	quota->filled_ns = now_ns;
	if (quota->balance_ns > KTSN_RECEIVER_BURST_NS)
		quota->balance_ns = KTSN_RECEIVER_BURST_NS;
	return quota->balance_ns < 0 ? -quota->balance_ns * 100 / quota->percent + 1 : 0;
}

#endif
