/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rings the loop polls, and when: rings that rang, rings of periodic flows that are expected to send
 * about now, and rings in which messages were left. The cost of a round and of a sleep grows with these, not
 * with the number of rings or flows.
 *
 *                 threshold                   expected
 *   --------------------+------------------------+----------> transmit times of a ring's messages
 *     ring the doorbell | the loop polls in time
 *
 * Each ring has a threshold of its own for its doorbell: a little before the time of the next message that is
 * expected of any of its flows. At that time the loop polls the ring, whether or not somebody rang. The loop
 * writes the threshold when it changes, once a message.
 *
 * A strategy that sends at once has every message ring, since the kernel would send each in the call. Nobody
 * knows beforehand when such a message is handed over, so nothing is expected then.
 *
 * Each flow has at most one entry in the queue of expectations. When the flow is expected later, the entry
 * stays and is queued again when its time comes: nothing has to be taken out of the middle.
 */
#include "watch.h"

#include "clock_changes.h"
#include "container_of.h"
#include "leftist_heap.h"
#include "loop_state.h"
#include "quotas.h"
#include "retire.h"
#include "throttle.h"

#include <assert.h>

enum {
	/* Longer periods are not worth a look without a doorbell. */
	PERIOD_MAX_NS = 1000000000,
	/* Flows that are expected at one moment: so many of them in a round, for each takes its time. */
	DUE_AT_ONCE = 32,
};

/* ---- rings to poll ---- */

void watch_ring(struct loop *loop, struct loop_ring *ring)
{
	struct quota *quota = ring->quota;

	if (ring->watched || ring->closed)
		return;
	ring->watched = true;
	if (!quota->rings) {
		ring_list_add(&loop->watch.quotas, &quota->watch);
		loop->watch.quota_count++;
	}
	ring_list_add(&quota->rings, &ring->watch);
}

static void unwatch(struct loop *loop, struct loop_ring *ring)
{
	struct quota *quota = ring->quota;

	if (!ring->watched)
		return;
	ring->watched = false;
	ring_list_remove(&quota->rings, &ring->watch);
	if (quota->rings)
		return;
	ring_list_remove(&loop->watch.quotas, &quota->watch);
	loop->watch.quota_count--;
}

const struct quota *watch_quota(const struct loop *loop)
{
	return container_of(loop->watch.quotas, const struct quota, watch);
}

struct loop_ring *watch_turn(struct loop *loop)
{
	struct quota *quota = container_of(loop->watch.quotas, struct quota, watch);
	struct loop_ring *ring = container_of(quota->rings, struct loop_ring, watch);

	loop->watch.quotas = loop->watch.quotas->next;
	quota->rings = quota->rings->next;
	return ring;
}

bool watch_ready(const struct loop *loop, int64_t now_tai_ns)
{
	const struct ring_list_link *link = loop->watch.quotas;

	/* What waits for memory or for its pod's quota cannot be taken yet, however ready it is. */
	if (!link || loop->pool.is_short)
		return false;
	do {
		if (!quota_exhausted(loop, container_of(link, struct quota, watch), now_tai_ns))
			return true;
		link = link->next;
	} while (link != loop->watch.quotas);
	return false;
}

/* ---- doorbells ---- */

static void doorbell_write(struct loop *loop, struct loop_ring *ring)
{
	const struct clock_offsets *offsets = loop_offsets(loop);
	int64_t before_ns[KTSN_CLOCKS];

	for (int clock = 0; clock < KTSN_CLOCKS; clock++)
		before_ns[clock] = ring->threshold_tai_ns == KTSN_SHAPER_NEVER
					   ? KTSN_DOORBELL_ALWAYS
					   : ring->threshold_tai_ns - offsets->to_tai_ns[clock];
	ktsn_ring_doorbell_set(&ring->consumer, before_ns);
	counter_add(&loop->watch.doorbells_set, 1);
}

static void doorbell_update(struct loop *loop, struct loop_ring *ring)
{
	int64_t before_tai_ns = ring->threshold_tai_ns;

	/* The loop polls the ring the whole lead before: the lead shrinks little by little only. */
	ring->threshold_tai_ns =
		ring->expected ? ring->expected->txtime_tai_ns - loop->wait.lead_ns / 2 : KTSN_SHAPER_NEVER;
	if (ring->threshold_tai_ns == before_tai_ns || ring->closed)
		return;
	doorbell_write(loop, ring);
	/* A message that came before its producer could see the later threshold rang no bell. */
	if (ring->threshold_tai_ns > before_tai_ns && ktsn_ring_ready(&ring->consumer))
		watch_ring(loop, ring);
}

void watch_polled(struct loop *loop, struct loop_ring *ring, bool backlog)
{
	ring->backlog = backlog;
	if (backlog)
		watch_ring(loop, ring);
	else
		unwatch(loop, ring);
	doorbell_update(loop, ring);
}

void watch_end(struct loop *loop, struct loop_ring *ring)
{
	throttle_forget(loop, ring);
	unwatch(loop, ring);
}

/* ---- expectations ---- */

static void entry_queue(struct loop *loop, struct loop_flow *flow)
{
	struct expectation *expectation = &flow->expectation;
	struct loop_ring *ring = flow->ring;

	expectation->entry.txtime_tai_ns = expectation->of_ring.txtime_tai_ns = expectation->expected_tai_ns;
	/* Of equal times, the queue and the heap must have the same first. */
	expectation->entry.order = expectation->of_ring.order = ++loop->watch.expectations_queued;
	ktsn_txtime_queue_push(&loop->watch.expectations, &expectation->entry, expectation->last_tai_ns);
	ring->expected = ktsn_leftist_heap_push(ring->expected, &expectation->of_ring);
	expectation->queued = true;
	ring->expectations++;
}

void watch_message(struct loop *loop, struct loop_flow *flow, int64_t txtime_tai_ns)
{
	struct expectation *expectation = &flow->expectation;
	int64_t period_ns = txtime_tai_ns - expectation->last_tai_ns;

	expectation->last_tai_ns = txtime_tai_ns;
	if (ktsn_strategy_sends_at_once(loop->shaping.strategy))
		return;
	if (period_ns <= 0 || period_ns > PERIOD_MAX_NS || flow->closed)
		return;
	expectation->expected_tai_ns = txtime_tai_ns + period_ns;
	if (!expectation->queued)
		entry_queue(loop, flow);
}

int64_t watch_next(const struct loop *loop, int64_t now_tai_ns)
{
	const struct ktsn_shaper_packet *first = ktsn_txtime_queue_first(&loop->watch.expectations);

	if (!first)
		return KTSN_SHAPER_NEVER;
	return first->txtime_tai_ns > now_tai_ns ? first->txtime_tai_ns : now_tai_ns;
}

static struct loop_flow *entry_pop(struct loop *loop)
{
	struct loop_flow *flow = container_of(ktsn_txtime_queue_pop(&loop->watch.expectations),
					      struct loop_flow, expectation.entry);
	struct loop_ring *ring = flow->ring;

	assert(ring->expected == &flow->expectation.of_ring);
	ring->expected = ktsn_leftist_heap_pop(ring->expected);
	ring->expectations--;
	flow->expectation.queued = false;
	return flow;
}

/* Its message may have been taken already; others of its ring rely on being looked for now. */
static void expectation_end(struct loop *loop, struct loop_flow *flow, int64_t until_tai_ns)
{
	struct loop_ring *ring = flow->ring;

	if (flow->expectation.expected_tai_ns > until_tai_ns && !flow->closed)
		entry_queue(loop, flow);
	else
		flow_retire_if_done(loop, flow);
	watch_ring(loop, ring);
	ring_retire_if_done(loop, ring);
}

void watch_forget(struct loop *loop)
{
	/* When flows are expected is not known any more: all are looked for, and learnt anew. */
	while (ktsn_txtime_queue_first(&loop->watch.expectations))
		expectation_end(loop, entry_pop(loop), KTSN_SHAPER_NEVER);
}

void watch_due(struct loop *loop, int64_t until_tai_ns)
{
	const struct ktsn_shaper_packet *first;

	for (int i = 0; i < DUE_AT_ONCE && (first = ktsn_txtime_queue_first(&loop->watch.expectations)) &&
			first->txtime_tai_ns <= until_tai_ns;
	     i++)
		expectation_end(loop, entry_pop(loop), until_tai_ns);
}
