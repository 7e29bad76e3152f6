/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pod may have of the loop (quota.h). A ring that is held back counts as having a backlog: it is looked
 * into in every round, and the loop does not sleep while its quota would let it be taken from.
 */
#include "loop_state.h"

#include "container_of.h"

#include <sys/epoll.h>

enum {
	/* So long a doorbell that rang too often is not listened to, at least. */
	MUTED_NS = 1000000,
	/* So many are listened to again in a round. */
	UNMUTE_AT_ONCE = 32,
	/* Of the packets that are anybody's, a pod may hold so many for each that is free. */
	HELD_PER_FREE = 8,
	/* Pods that have a reserve, at least. */
	RESERVES_MIN = 8,
};

void quota_wake_by(struct loop *loop, int64_t tai_ns)
{
	if (tai_ns < loop->quota_next_tai_ns)
		loop->quota_next_tai_ns = tai_ns;
}

struct ktsn_shaper_lane *quota_lane(const struct packet *packet)
{
	return packet->flow->ring->quota->lanes[packet->outlet];
}

/* ---- the pool of packets ----
 *
 *   |<----- half of it: a reserve for each pod, and as many again for those to come ----->|<----- anybody's ----->|
 *
 * What a pod has not used of its reserve stays free, whatever the others want. */

/* Of how many pods each has a reserve: always more than there are, so that the next ones find theirs. */
static uint32_t reserves_for(uint32_t quotas)
{
	uint32_t count = RESERVES_MIN;

	while (count < 2 * quotas)
		count *= 2;
	return count;
}

/* When there are other pods than before, or another number. */
static void reserves_set(struct loop *loop)
{
	uint32_t count = reserves_for(loop->quotas_open_count);

	loop->reserve = loop->config.packets / 2 / count;
	if (!loop->reserve)
		loop->reserve = 1;
	loop->reserved_free = (count - loop->quotas_open_count) * loop->reserve;
	for (const struct quota *quota = loop->quotas_open; quota; quota = quota->open_next)
		loop->reserved_free += quota_reserve_free(loop, quota);
}

void quota_ring_opened(struct loop *loop, struct quota *quota)
{
	if (quota->rings_open++)
		return;
	quota->open_next = loop->quotas_open;
	loop->quotas_open = quota;
	loop->quotas_open_count++;
	reserves_set(loop);
}

void quota_ring_retired(struct loop *loop, struct quota *quota)
{
	struct quota **at = &loop->quotas_open;

	if (--quota->rings_open)
		return;
	while (*at != quota)
		at = &(*at)->open_next;
	*at = quota->open_next;
	loop->quotas_open_count--;
	reserves_set(loop);
}

/* Packets that are nobody's reserve. */
static uint32_t anybodys(const struct loop *loop)
{
	uint32_t others = loop->reserved_free + loop->promised;

	return loop->packets_free_count > others ? loop->packets_free_count - others : 0;
}

uint32_t quota_room(const struct loop *loop, const struct quota *quota)
{
	uint64_t pending = quota_pending(quota), others = anybodys(loop),
		 reserve = quota_reserve_free(loop, quota);
	uint64_t beyond = pending > loop->reserve ? pending - loop->reserve : 0, room;

	/* Something of what is anybody's stays, too, however many pods take as much as they can. */
	room = reserve + (beyond <= HELD_PER_FREE * others ? others : 0);
	if (pending + room > quota_pending_max(quota))
		room = pending < quota_pending_max(quota) ? quota_pending_max(quota) - pending : 0;
	return (uint32_t)room;
}

bool quota_full(const struct loop *loop, const struct quota *quota)
{
	uint32_t pending = quota_pending(quota), room;

	/* Mostly. */
	if (pending < loop->reserve && pending < quota_pending_max(quota) && !quota->wanted)
		return false;
	room = quota_room(loop, quota);
	/* With no packet left at all it is a shortage, not a matter of quotas. */
	return loop->packets_free_count && (room == 0 || (room < quota->wanted && loop_pending(loop)));
}

bool quota_holds(struct loop *loop, struct quota *quota, int64_t now_tai_ns)
{
	if (quota_full(loop, quota)) {
		counter_add(&loop->counters.share_pending, 1);
		return true;
	}
	if (quota_rate_take(&quota->messages, now_tai_ns))
		return false;
	counter_add(&loop->counters.share_rate, 1);
	quota_wake_by(loop, quota_rate_next(&quota->messages));
	return true;
}

bool quota_shut(const struct loop *loop, const struct quota *quota, int64_t now_tai_ns)
{
	return quota_full(loop, quota) || quota_rate_next(&quota->messages) > now_tai_ns;
}

/* Edge-triggered: what rang stays readable, since nobody reads the eventfd behind it. */
void doorbell_listen(const struct loop *loop, struct loop_ring *ring, bool listen)
{
	struct epoll_event doorbell = {.events = listen ? EPOLLIN | EPOLLET : 0, .data.ptr = ring};

	if (ring->doorbell_set_fd >= 0)
		(void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, ring->doorbell_set_fd, &doorbell);
}

void quota_doorbell(struct loop *loop, struct loop_ring *ring, int64_t now_tai_ns)
{
	if (ring->muted || ring->closed || quota_rate_take(&ring->quota->doorbells, now_tai_ns))
		return;
	counter_add(&loop->counters.share_doorbells, 1);
	doorbell_listen(loop, ring, false);
	ring->muted = true;
	ring_list_add(&loop->muted, &ring->mute);
	loop->muted_count++;
	if (loop->unmute_tai_ns == KTSN_SHAPER_NEVER)
		loop->unmute_tai_ns = now_tai_ns + MUTED_NS;
}

static void unmuted(struct loop *loop, struct loop_ring *ring)
{
	ring->muted = false;
	ring_list_remove(&loop->muted, &ring->mute);
	loop->muted_count--;
}

/* The first: those that were muted longest ago. */
static void unmute_some(struct loop *loop)
{
	for (uint32_t count = 0; loop->unmute_left && count < UNMUTE_AT_ONCE; count++) {
		struct loop_ring *ring = container_of(loop->muted, struct loop_ring, mute);

		unmuted(loop, ring);
		loop->unmute_left--;
		/* What rang meanwhile rings now. A ring that closes stays unheard: it is freed while the application may
		 * still ring, and its set serves another ring. */
		if (!ring->closing)
			doorbell_listen(loop, ring, true);
	}
}

/* Together, and not each in its time, or they could wake the loop that often. Those that are muted while others are
 * listened to again wait for the next time. */
void quotas_unmute(struct loop *loop, int64_t now_tai_ns)
{
	/* The rings that were held back are looked into in this round. */
	if (now_tai_ns >= loop->quota_next_tai_ns)
		loop->quota_next_tai_ns = KTSN_SHAPER_NEVER;
	if (now_tai_ns < loop->unmute_tai_ns)
		return;
	if (!loop->unmute_left)
		loop->unmute_left = loop->muted_count;
	unmute_some(loop);
	if (!loop->unmute_left)
		loop->unmute_tai_ns = loop->muted ? now_tai_ns + MUTED_NS : KTSN_SHAPER_NEVER;
}

void quota_forget(struct loop *loop, struct loop_ring *ring)
{
	if (!ring->muted)
		return;
	unmuted(loop, ring);
	/* It may have been one of those. */
	if (loop->unmute_left > loop->muted_count)
		loop->unmute_left = loop->muted_count;
}

void quotas_clock_set_back(struct loop *loop)
{
	loop->quota_next_tai_ns = KTSN_SHAPER_NEVER;
	if (loop->muted)
		loop->unmute_tai_ns = 0;
}

int64_t quotas_next(const struct loop *loop)
{
	return loop->quota_next_tai_ns < loop->unmute_tai_ns ? loop->quota_next_tai_ns : loop->unmute_tai_ns;
}
