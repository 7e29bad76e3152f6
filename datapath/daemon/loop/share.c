/* SPDX-License-Identifier: Apache-2.0 */
#include "share.h"

#include "clock.h"

#include <stdlib.h>
#include <sys/mman.h>

/* What may come at once, and still be within the rate. */
enum { BURST_NS = 10000000 };

/* To make a ring, to take one back and to close it again takes the control thread a good part of a millisecond. A pod whose
 * processes all come at once, after a restart, gets 16 rings and then 500 a second. */
enum { RING_WORKS_PER_SECOND = 500, RING_WORKS_BURST_NS = 30000000 };

static void rate_set(struct share_rate *rate, uint32_t per_second)
{
	atomic_store_explicit(&rate->interval_ns, per_second ? NS_PER_SECOND / per_second : 0,
			      memory_order_relaxed);
}

void share_limits_set(struct share *share, const struct share_limits *limits)
{
	share->limits = *limits;
	atomic_store_explicit(&share->pending_max, limits->pending, memory_order_relaxed);
	atomic_store_explicit(&share->horizon_ns, limits->horizon_ns, memory_order_relaxed);
	rate_set(&share->messages, limits->message_rate);
	rate_set(&share->doorbells, limits->doorbell_rate);
}

/* A multiple of any alignment that is asked for. */
static size_t lane_bytes(void)
{
	enum { ALIGNMENT = 4096 };

	return (ktsn_shaper_lane_bytes() + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Large and mostly never used: pages come when they are touched, which is when messages of a class come for the
 * first time. */
static int lanes_map(struct share *share)
{
	uint8_t *memory = mmap(NULL, SHARE_LANES * lane_bytes(), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return -1;
	for (size_t i = 0; i < SHARE_LANES; i++)
		share->lanes[i] = (struct ktsn_shaper_lane *)(memory + i * lane_bytes());
	return 0;
}

struct share *share_create(const struct share_limits *limits, uint32_t *live)
{
	struct share *share = *live < SHARES_MAX ? calloc(1, sizeof(*share)) : NULL;

	if (!share)
		return NULL;
	if (lanes_map(share)) {
		free(share);
		return NULL;
	}
	share->live = live;
	(*live)++;
	share->users = 1;
	share->messages.burst_ns = share->doorbells.burst_ns = BURST_NS;
	share->ring_works.burst_ns = RING_WORKS_BURST_NS;
	rate_set(&share->ring_works, RING_WORKS_PER_SECOND);
	share_limits_set(share, limits);
	return share;
}

void share_get(struct share *share)
{
	share->users++;
}

void share_put(struct share *share)
{
	if (!share || --share->users > 0)
		return;
	(*share->live)--;
	munmap(share->lanes[0], SHARE_LANES * lane_bytes());
	free(share);
}
