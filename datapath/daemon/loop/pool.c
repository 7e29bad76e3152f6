/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of packets, a list through their `next`, and the share of each pod (quota.h). A ring whose pod has
 * used up its quota counts as having a backlog: the loop polls it in every round, and does not sleep once the
 * quota allows for more.
 */
#include "pool.h"

/* ---- packets ---- */

struct packet *packet_alloc(struct loop *loop)
{
	struct packet *packet = loop->pool.free;

	if (!packet)
		return NULL;
	if (ktsn_port_frame_alloc(loop->config.port, &packet->frame))
		return NULL;
	loop->pool.free = packet->next;
	loop->pool.free_count--;
	packet->late_reason = LATE_WAKEUP;
	packet->refused_tai_ns = 0;
	packet->overrun = false;
	return packet;
}

void packet_free(struct loop *loop, struct packet *packet)
{
	packet->next = loop->pool.free;
	loop->pool.free = packet;
	loop->pool.free_count++;
	loop->pool.is_short = false;
}

void packet_begin(struct loop *loop, struct packet *packet)
{
	packet->held = true;
	if (packet->message->flow->clock == KTSN_CLOCK_TAI)
		return;
	/* The first packet on another clock: offsets are watched from now on. Packets that wait already have
	 * the same offsets, or they would have been moved when this round began. */
	if (!loop->clocks.foreign_packets)
		loop->clocks.held_offsets = loop->clocks.offsets;
	loop->clocks.foreign_packets++;
}

void packet_end(struct loop *loop, struct packet *packet)
{
	packet->held = false;
	loop->clocks.foreign_packets -= packet->message->flow->clock != KTSN_CLOCK_TAI;
}

/* ---- shares ---- */

enum {
	/* A pod may hold this many unreserved packets for each one that is free. */
	HELD_PER_FREE = 8,
	/* The smallest number of reserves. */
	RESERVES_MIN = 8,
};

void quota_wake_by(struct loop *loop, int64_t tai_ns)
{
	if (tai_ns < loop->quotas.next_tai_ns)
		loop->quotas.next_tai_ns = tai_ns;
}

struct ktsn_shaper_lane *quota_lane(const struct packet *packet)
{
	return packet->message->flow->ring->quota->lanes[packet->egress];
}

/* ---- reserves ----
 *
 *   |<--- half: a reserve for each pod, and as many again for those to come --->|<--- unreserved --->|
 *
 * The unused part of a pod's reserve stays free, however many packets others want. */

/* Computes the reserves after the number of pods has changed. */
static void reserves_set(struct loop *loop)
{
	uint32_t count = RESERVES_MIN;

	/* There are more reserves than pods, so that new pods find theirs. */
	while (count < 2 * loop->quotas.open_count)
		count *= 2;
	loop->quotas.reserve = loop->config.packets / 2 / count;
	if (!loop->quotas.reserve)
		loop->quotas.reserve = 1;
	loop->quotas.reserved_free = (count - loop->quotas.open_count) * loop->quotas.reserve;
	for (const struct quota *quota = loop->quotas.open; quota; quota = quota->open_next)
		loop->quotas.reserved_free += quota_reserve_free(loop, quota);
}

void quota_ring_opened(struct loop *loop, struct quota *quota)
{
	if (quota->rings_open++)
		return;
	quota->open_next = loop->quotas.open;
	loop->quotas.open = quota;
	loop->quotas.open_count++;
	reserves_set(loop);
}

void quota_ring_retired(struct loop *loop, struct quota *quota)
{
	struct quota **at = &loop->quotas.open;

	if (--quota->rings_open)
		return;
	while (*at != quota)
		at = &(*at)->open_next;
	*at = quota->open_next;
	loop->quotas.open_count--;
	reserves_set(loop);
}

/* Returns the free packets that belong to no reserve. */
static uint32_t unreserved_free(const struct loop *loop)
{
	uint32_t others = loop->quotas.reserved_free + loop->replication.promised;

	return loop->pool.free_count > others ? loop->pool.free_count - others : 0;
}

uint32_t quota_room(const struct loop *loop, const struct quota *quota)
{
	uint64_t pending = quota_pending(quota), others = unreserved_free(loop),
		 reserve = quota_reserve_free(loop, quota);
	uint64_t beyond = pending > loop->quotas.reserve ? pending - loop->quotas.reserve : 0, room;

	/* Some unreserved packets stay free too, however many pods take as many as they can. */
	room = reserve + (beyond <= HELD_PER_FREE * others ? others : 0);
	if (pending + room > quota_pending_max(quota))
		room = pending < quota_pending_max(quota) ? quota_pending_max(quota) - pending : 0;
	return (uint32_t)room;
}

bool quota_full(const struct loop *loop, const struct quota *quota)
{
	uint32_t pending = quota_pending(quota), room;

	/* The usual case. */
	if (pending < loop->quotas.reserve && pending < quota_pending_max(quota) && !quota->wanted)
		return false;
	room = quota_room(loop, quota);
	/* An empty pool is a shortage of memory, not of quota. */
	return loop->pool.free_count && (room == 0 || (room < quota->wanted && loop_pending_messages(loop)));
}

bool quota_blocks(struct loop *loop, struct quota *quota, int64_t now_tai_ns)
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

bool quota_exhausted(const struct loop *loop, const struct quota *quota, int64_t now_tai_ns)
{
	return quota_full(loop, quota) || quota_rate_next(&quota->messages) > now_tai_ns;
}

void quotas_due(struct loop *loop, int64_t now_tai_ns)
{
	if (now_tai_ns >= loop->quotas.next_tai_ns)
		loop->quotas.next_tai_ns = KTSN_SHAPER_NEVER;
}

void quotas_clock_set_back(struct loop *loop)
{
	loop->quotas.next_tai_ns = KTSN_SHAPER_NEVER;
}

int64_t quotas_next(const struct loop *loop)
{
	return loop->quotas.next_tai_ns;
}
