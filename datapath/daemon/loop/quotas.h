/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pods may have of the loop (quota.h): packets of the pool, and messages a second. Loop thread only.
 */
#ifndef KTSN_LOOP_QUOTAS_H
#define KTSN_LOOP_QUOTAS_H

#include "loop_state.h"

/* How many packets more a pod may have. */
uint32_t quota_room(const struct loop *loop, const struct quota *quota);
/* Whether those are too few for what the pod waits for. When there is none left at all, that is a shortage of
 * memory. */
bool quota_full(const struct loop *loop, const struct quota *quota);

/* What is left of its reserve. */
static inline uint32_t quota_reserve_free(const struct loop *loop, const struct quota *quota)
{
	uint32_t pending = quota_pending(quota);

	return pending < loop->quotas.reserve ? loop->quotas.reserve - pending : 0;
}

/* It has so many packets more; negative numbers wrap. One writer: no read-modify-write needed. */
static inline void quota_pending_add(struct loop *loop, struct quota *quota, uint32_t count)
{
	loop->quotas.reserved_free -= quota_reserve_free(loop, quota);
	atomic_store_explicit(&quota->pending, quota_pending(quota) + count, memory_order_relaxed);
	loop->quotas.reserved_free += quota_reserve_free(loop, quota);
}

/* The same of all messages. */
static inline void loop_pending_add(struct loop *loop, uint32_t count)
{
	atomic_store_explicit(&loop->pending, loop_pending_messages(loop) + count, memory_order_relaxed);
}

/* It has a ring more, or less: with the first and the last, reserves change. */
void quota_ring_opened(struct loop *loop, struct quota *quota);
void quota_ring_retired(struct loop *loop, struct quota *quota);
/* The loop does not sleep beyond that. */
void quota_wake_by(struct loop *loop, int64_t tai_ns);
/* The clock was set back: times that were waited for are void. */
void quotas_clock_set_back(struct loop *loop);
/* When a pod may send again that may not now; KTSN_SHAPER_NEVER: there is none. */
int64_t quotas_next(const struct loop *loop);
/* That time has come: the rings that were held back are polled in this round. */
void quotas_due(struct loop *loop, int64_t now_tai_ns);
/* Whether nothing more may be taken of a pod now; remembers when it may again. */
bool quota_blocks(struct loop *loop, struct quota *quota, int64_t now_tai_ns);
/* Whether that is so, without asking for anything. */
bool quota_exhausted(const struct loop *loop, const struct quota *quota, int64_t now_tai_ns);
/* Where its packets wait. */
struct ktsn_shaper_lane *quota_lane(const struct packet *packet);

#endif
