/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rings the loop looks into on its own, without a doorbell: those of flows that are periodic and
 * expected to send soon, and those that hold a message for which there was no memory. The cost of a round
 * grows with these, not with the number of rings.
 *
 * Each flow has at most one entry in the queue of expectations. When the flow is then expected later, the
 * entry stays and is queued again when its time comes (nothing has to be taken out of the middle).
 */
#include "loop_state.h"

#include <stdlib.h>

/* Longer periods are not worth a look without a doorbell. */
enum { PERIOD_MAX_NS = 1000000000 };

static void list_add(struct loop *loop, struct loop_ring *ring)
{
	if (ring->watch_index != LOOP_UNWATCHED || ring->closed)
		return;
	ring->watch_index = loop->watched_count;
	loop->watched[loop->watched_count++] = ring;
}

static void list_remove(struct loop *loop, struct loop_ring *ring)
{
	static const int64_t always[KTSN_CLOCKS] = {KTSN_DOORBELL_ALWAYS, KTSN_DOORBELL_ALWAYS,
						    KTSN_DOORBELL_ALWAYS};
	struct loop_ring *last;

	if (ring->watch_index == LOOP_UNWATCHED)
		return;
	last = loop->watched[--loop->watched_count];
	loop->watched[ring->watch_index] = last;
	last->watch_index = ring->watch_index;
	ring->watch_index = LOOP_UNWATCHED;
	ktsn_ring_doorbell_set(&ring->consumer, always);
}

static void list_update(struct loop *loop, struct loop_ring *ring)
{
	if (ring->expectations || ring->backlog) {
		list_add(loop, ring);
		return;
	}
	list_remove(loop, ring);
	/* A message that came before its producer could see the new threshold rang no bell. */
	if (!ring->closed && ktsn_ring_ready(&ring->consumer))
		loop_take_ring(loop, ring);
}

static void entry_queue(struct loop *loop, struct loop_flow *flow)
{
	struct expectation *expectation = &flow->expectation;

	expectation->entry.txtime_tai_ns = expectation->expected_tai_ns;
	ktsn_txtime_queue_push(&loop->expectations, &expectation->entry, expectation->last_tai_ns);
	expectation->queued = true;
	flow->ring->expectations++;
}

void watch_message(struct loop *loop, struct loop_flow *flow, int64_t txtime_tai_ns)
{
	struct expectation *expectation = &flow->expectation;
	int64_t period_ns = txtime_tai_ns - expectation->last_tai_ns;

	expectation->last_tai_ns = txtime_tai_ns;
	if (period_ns <= 0 || period_ns > PERIOD_MAX_NS || flow->closed)
		return;
	expectation->expected_tai_ns = txtime_tai_ns + period_ns;
	if (expectation->queued)
		return;
	entry_queue(loop, flow);
	list_add(loop, flow->ring);
}

void watch_backlog(struct loop *loop, struct loop_ring *ring, bool backlog)
{
	if (ring->backlog == backlog)
		return;
	ring->backlog = backlog;
	list_update(loop, ring);
}

void watch_end(struct loop *loop, struct loop_ring *ring)
{
	share_forget(loop, ring);
	list_remove(loop, ring);
}

int64_t watch_next(const struct loop *loop, int64_t now_tai_ns)
{
	const struct ktsn_shaper_packet *first = ktsn_txtime_queue_first(&loop->expectations);

	if (!first)
		return KTSN_SHAPER_NEVER;
	return first->txtime_tai_ns > now_tai_ns ? first->txtime_tai_ns : now_tai_ns;
}

static struct loop_flow *flow_of_entry(struct ktsn_shaper_packet *entry)
{
	return (struct loop_flow *)((char *)entry - offsetof(struct loop_flow, expectation.entry));
}

void watch_expire(struct loop *loop, int64_t until_tai_ns)
{
	struct ktsn_shaper_packet *entry;

	while ((entry = ktsn_txtime_queue_first(&loop->expectations)) &&
	       entry->txtime_tai_ns <= until_tai_ns) {
		struct loop_flow *flow = flow_of_entry(ktsn_txtime_queue_pop(&loop->expectations));
		struct loop_ring *ring = flow->ring;

		ring->busy++;
		flow->expectation.queued = false;
		ring->expectations--;
		if (flow->expectation.expected_tai_ns > until_tai_ns && !flow->closed)
			entry_queue(loop, flow);
		else
			flow_retire_if_done(loop, flow);
		list_update(loop, ring);
		ring->busy--;
		ring_retire_if_done(loop, ring);
	}
}
