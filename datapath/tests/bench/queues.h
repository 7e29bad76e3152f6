/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of transmit times, to be measured against each other: the one that the shaper uses, and the
 * alternatives that docs/decisions/0005 speaks of.
 */
#ifndef KTSN_BENCH_QUEUES_H
#define KTSN_BENCH_QUEUES_H

#include "packet.h"

struct bench_queue {
	const char *name;
	/* For at most so many packets. */
	void *(*create)(uint32_t packets);
	void (*push)(void *queue, struct ktsn_shaper_packet *packet, int64_t now_tai_ns);
	struct ktsn_shaper_packet *(*first)(const void *queue);
	/* Not empty. */
	struct ktsn_shaper_packet *(*pop)(void *queue);
	void (*destroy)(void *queue);
};

extern const struct bench_queue bench_queue_shaper;
extern const struct bench_queue bench_queue_timing_wheel;
extern const struct bench_queue bench_queue_heap4;
extern const struct bench_queue bench_queue_calendar;

#endif
