/* SPDX-License-Identifier: Apache-2.0 */
#include "quota.h"

#include "clock.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Events that may come at once, as time at the rate. */
enum { BURST_NS = 10000000 };

/* Creating a ring, taking one back and closing it takes the control thread a large part of a millisecond. A
 * pod whose processes all connect at once, after a restart, gets 16 rings and then 500 per second. */
enum { RING_WORKS_PER_SECOND = 500, RING_WORKS_BURST_NS = 30000000 };

/* A program may open this many sockets when it starts, and a hundred per second after that. */
enum { RECEIVE_WORKS_PER_SECOND = 100, RECEIVE_WORKS_BURST = 1024 };

/* Each notification takes the control thread and the pod's thread one or two microseconds. */
enum { NOTIFICATIONS_PER_SECOND = 16000, NOTIFICATIONS_BURST_NS = 2000000 };

static void rate_set(struct quota_rate *rate, uint32_t per_second)
{
	atomic_store_explicit(&rate->interval_ns, per_second ? NS_PER_SECOND / per_second : 0,
			      memory_order_relaxed);
}

void quota_limits_set(struct quota *quota, const struct quota_limits *limits)
{
	quota->limits = *limits;
	atomic_store_explicit(&quota->pending_max, limits->pending, memory_order_relaxed);
	atomic_store_explicit(&quota->horizon_ns, limits->horizon_ns, memory_order_relaxed);
	rate_set(&quota->messages, limits->message_rate);
	rate_set(&quota->doorbells, limits->doorbell_rate);
}

/* A multiple of any alignment of a lane. */
static size_t lane_bytes(void)
{
	enum { ALIGNMENT = 4096 };

	return (ktsn_shaper_lane_bytes() + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Lanes are large and mostly unused: the kernel allocates pages when they are touched, with the first message
 * of a class. */
static int lanes_map(struct quota *quota)
{
	uint8_t *memory = mmap(NULL, QUOTA_LANES * lane_bytes(), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return -1;
	for (size_t i = 0; i < QUOTA_LANES; i++)
		quota->lanes[i] = (struct ktsn_shaper_lane *)(memory + i * lane_bytes());
	return 0;
}

struct quota *quota_create(const struct quota_limits *limits, uint32_t *live)
{
	struct quota *quota = *live < QUOTAS_MAX ? calloc(1, sizeof(*quota)) : NULL;

	if (!quota)
		return NULL;
	if (lanes_map(quota)) {
		free(quota);
		return NULL;
	}
	quota->live = live;
	(*live)++;
	quota->users = 1;
	quota->messages.burst_ns = quota->doorbells.burst_ns = BURST_NS;
	quota->ring_works.burst_ns = RING_WORKS_BURST_NS;
	rate_set(&quota->ring_works, RING_WORKS_PER_SECOND);
	quota->receive_works.burst_ns = RECEIVE_WORKS_BURST * NS_PER_SECOND / RECEIVE_WORKS_PER_SECOND;
	rate_set(&quota->receive_works, RECEIVE_WORKS_PER_SECOND);
	quota->notifications.burst_ns = NOTIFICATIONS_BURST_NS;
	rate_set(&quota->notifications, NOTIFICATIONS_PER_SECOND);
	quota_limits_set(quota, limits);
	return quota;
}

void quota_get(struct quota *quota)
{
	quota->users++;
}

void quota_put(struct quota *quota)
{
	if (!quota || --quota->users > 0)
		return;
	(*quota->live)--;
	munmap(quota->lanes[0], QUOTA_LANES * lane_bytes());
	free(quota);
}
