/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets of the pool, and how pods share them (quota.h). Loop thread only.
 */
#ifndef KTSN_LOOP_POOL_H
#define KTSN_LOOP_POOL_H

#include "loop_state.h"

/* ---- packets ---- */

/* Returns a packet with a frame, or NULL when there is none left. */
struct packet *packet_alloc(struct loop *loop);
/* The frame belongs to the port or was freed before. */
void packet_free(struct loop *loop, struct packet *packet);

/* The packet has a message, and its time by the current clock offsets; and it has none any more. */
void packet_begin(struct loop *loop, struct packet *packet);
void packet_end(struct loop *loop, struct packet *packet);

/* ---- shares of pods ---- */

/* Returns how many more packets the pod may have. */
uint32_t quota_room(const struct loop *loop, const struct quota *quota);
/* Whether the pod may have fewer packets than it waits for. False when the pool is empty: then memory is
 * short, not the quota. */
bool quota_full(const struct loop *loop, const struct quota *quota);

/* Returns the unused part of the pod's reserve. */
static inline uint32_t quota_reserve_free(const struct loop *loop, const struct quota *quota)
{
	uint32_t pending = quota_pending(quota);

	return pending < loop->quotas.reserve ? loop->quotas.reserve - pending : 0;
}

/* Adds to the pod's packets; negative numbers wrap. One writer: no read-modify-write needed. */
static inline void quota_pending_add(struct loop *loop, struct quota *quota, uint32_t count)
{
	loop->quotas.reserved_free -= quota_reserve_free(loop, quota);
	atomic_store_explicit(&quota->pending, quota_pending(quota) + count, memory_order_relaxed);
	loop->quotas.reserved_free += quota_reserve_free(loop, quota);
}

/* Adds to the pending messages of all pods. */
static inline void loop_pending_add(struct loop *loop, uint32_t count)
{
	atomic_store_explicit(&loop->pending, loop_pending_messages(loop) + count, memory_order_relaxed);
}

/* The pod has one ring more, or one less. Reserves change with its first and its last. */
void quota_ring_opened(struct loop *loop, struct quota *quota);
void quota_ring_retired(struct loop *loop, struct quota *quota);
/* Where the packet waits in its shaper. */
struct ktsn_shaper_lane *quota_lane(const struct packet *packet);

/* Whether nothing more may be taken of the pod at this time. Counts the reason and wakes the loop when it may
 * send again. */
bool quota_blocks(struct loop *loop, struct quota *quota, int64_t now_tai_ns);
/* The same without side effects. */
bool quota_exhausted(const struct loop *loop, const struct quota *quota, int64_t now_tai_ns);

/* The loop does not sleep beyond this time. */
void quota_wake_by(struct loop *loop, int64_t tai_ns);
/* Returns that time; KTSN_SHAPER_NEVER: none. */
int64_t quotas_next(const struct loop *loop);
/* Forgets it once it has come: rings that were blocked are polled in this round. */
void quotas_due(struct loop *loop, int64_t now_tai_ns);
/* Forgets it because the clock was set back. */
void quotas_clock_set_back(struct loop *loop);

#endif
