/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbells that ring more often than their pod may. The loop stops listening to such a ring's doorbell for a
 * while.
 */
#include "throttle.h"

#include "container_of.h"
#include "loop_state.h"

#include <sys/epoll.h>

enum {
	/* A doorbell that rang too often is not listened to for at least this long. */
	THROTTLED_NS = 1000000,
	/* So many are listened to again in a round. */
	RELEASE_AT_ONCE = 32,
};

/* Edge-triggered: what rang stays readable, since nobody reads the eventfd behind it. */
void doorbell_listen(const struct loop *loop, struct loop_ring *ring, bool listen)
{
	struct epoll_event doorbell = {.events = listen ? EPOLLIN | EPOLLET : 0, .data.ptr = ring};

	if (ring->doorbell_set_fd >= 0)
		(void)epoll_ctl(loop->wait.epoll_fd, EPOLL_CTL_MOD, ring->doorbell_set_fd, &doorbell);
}

void throttle_doorbell(struct loop *loop, struct loop_ring *ring, int64_t now_tai_ns)
{
	if (ring->throttled || ring->closed || quota_rate_take(&ring->quota->doorbells, now_tai_ns))
		return;
	counter_add(&loop->counters.share_doorbells, 1);
	doorbell_listen(loop, ring, false);
	ring->throttled = true;
	ring_list_add(&loop->throttle.rings, &ring->throttle_entry);
	loop->throttle.count++;
	if (loop->throttle.until_tai_ns == KTSN_SHAPER_NEVER)
		loop->throttle.until_tai_ns = now_tai_ns + THROTTLED_NS;
}

static void throttle_end(struct loop *loop, struct loop_ring *ring)
{
	ring->throttled = false;
	ring_list_remove(&loop->throttle.rings, &ring->throttle_entry);
	loop->throttle.count--;
}

/* The first: those that were throttled longest ago. */
static void release_some(struct loop *loop)
{
	for (uint32_t count = 0; loop->throttle.release_left && count < RELEASE_AT_ONCE; count++) {
		struct loop_ring *ring = container_of(loop->throttle.rings, struct loop_ring, throttle_entry);

		throttle_end(loop, ring);
		loop->throttle.release_left--;
		/* What rang meanwhile rings now. A ring that closes stays unheard: it is freed while the
		 * application may still ring, and its set serves another ring. */
		if (!ring->closing)
			doorbell_listen(loop, ring, true);
	}
}

/* Together, and not each in its time, or they could wake the loop that often. Those that are throttled while
 * others are listened to again wait for the next time. */
void throttle_release(struct loop *loop, int64_t now_tai_ns)
{
	if (now_tai_ns < loop->throttle.until_tai_ns)
		return;
	if (!loop->throttle.release_left)
		loop->throttle.release_left = loop->throttle.count;
	release_some(loop);
	if (!loop->throttle.release_left)
		loop->throttle.until_tai_ns =
			loop->throttle.rings ? now_tai_ns + THROTTLED_NS : KTSN_SHAPER_NEVER;
}

void throttle_forget(struct loop *loop, struct loop_ring *ring)
{
	if (!ring->throttled)
		return;
	throttle_end(loop, ring);
	/* It may have been one of those. */
	if (loop->throttle.release_left > loop->throttle.count)
		loop->throttle.release_left = loop->throttle.count;
}

void throttle_clock_set_back(struct loop *loop)
{
	if (loop->throttle.rings)
		loop->throttle.until_tai_ns = 0;
}

int64_t throttle_next(const struct loop *loop)
{
	return loop->throttle.until_tai_ns;
}
