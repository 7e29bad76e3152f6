/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pod may have of the loop (share.h). A ring that is held back counts as having a backlog: it is looked
 * into in every round, and the loop does not sleep while its share would let it be taken from.
 */
#include "loop_state.h"

#include <sys/epoll.h>

enum {
	/* So long a doorbell that rang too often is not listened to. */
	MUTED_NS = 1000000,
	/* A pod may hold so many packets for each that is free: however many pods send as much as they can, there are
	 * some left for one that does not. */
	HELD_PER_FREE = 8,
};

static void wake_by(struct loop *loop, int64_t tai_ns)
{
	if (tai_ns < loop->share_next_tai_ns)
		loop->share_next_tai_ns = tai_ns;
}

struct ktsn_shaper_lane *share_lane(const struct packet *packet)
{
	return packet->flow->ring->share->lanes[packet->outlet];
}

bool share_full(const struct loop *loop, const struct share *share)
{
	uint64_t pending = share_pending(share), free = loop->packets_free_count;

	return pending >= share->limits.pending || (free > 0 && pending > HELD_PER_FREE * free);
}

bool share_holds(struct loop *loop, struct share *share, int64_t now_tai_ns)
{
	if (share_full(loop, share)) {
		counter_add(&loop->counters.share_pending, 1);
		return true;
	}
	if (share_rate_take(&share->messages, now_tai_ns))
		return false;
	counter_add(&loop->counters.share_rate, 1);
	wake_by(loop, share_rate_next(&share->messages));
	return true;
}

bool share_shut(const struct loop *loop, const struct share *share, int64_t now_tai_ns)
{
	return share_full(loop, share) || share_rate_next(&share->messages) > now_tai_ns;
}

/* Edge-triggered and never read: the application has the same eventfd, and could have a read block. */
static void doorbell_listen(const struct loop *loop, struct loop_ring *ring, bool listen)
{
	struct epoll_event doorbell = {.events = listen ? EPOLLIN | EPOLLET : 0, .data.ptr = ring};

	(void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, ring->doorbell_fd, &doorbell);
}

void share_doorbell(struct loop *loop, struct loop_ring *ring, int64_t now_tai_ns)
{
	if (ring->muted || ring->closed || share_rate_take(&ring->share->doorbells, now_tai_ns))
		return;
	counter_add(&loop->counters.share_doorbells, 1);
	doorbell_listen(loop, ring, false);
	ring->muted = true;
	ring->muted_next = loop->muted;
	loop->muted = ring;
	if (loop->unmute_tai_ns == KTSN_SHAPER_NEVER)
		loop->unmute_tai_ns = now_tai_ns + MUTED_NS;
}

void shares_unmute(struct loop *loop, int64_t now_tai_ns)
{
	struct loop_ring *ring = loop->muted;

	/* The rings that were held back are looked into in this round. */
	if (now_tai_ns >= loop->share_next_tai_ns)
		loop->share_next_tai_ns = KTSN_SHAPER_NEVER;
	if (now_tai_ns < loop->unmute_tai_ns)
		return;
	loop->muted = NULL;
	loop->unmute_tai_ns = KTSN_SHAPER_NEVER;
	while (ring) {
		struct loop_ring *next = ring->muted_next;

		ring->muted = false;
		/* What rang meanwhile rings now. */
		doorbell_listen(loop, ring, true);
		ring = next;
	}
}

void share_forget(struct loop *loop, struct loop_ring *ring)
{
	struct loop_ring **at = &loop->muted;

	while (*at && *at != ring)
		at = &(*at)->muted_next;
	if (*at)
		*at = ring->muted_next;
	ring->muted = false;
}

void shares_clock_set_back(struct loop *loop)
{
	loop->share_next_tai_ns = KTSN_SHAPER_NEVER;
	if (loop->muted)
		loop->unmute_tai_ns = 0;
}

int64_t shares_next(const struct loop *loop)
{
	return loop->share_next_tai_ns < loop->unmute_tai_ns ? loop->share_next_tai_ns : loop->unmute_tai_ns;
}
