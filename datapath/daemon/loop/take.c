/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which messages are taken, and how many at once: pods take turns, and a departure that is due comes first.
 */
#include "take.h"

#include "accept.h"
#include "clock.h"
#include "clock_changes.h"
#include "loop_state.h"
#include "outcome.h"
#include "pool.h"
#include "round.h"
#include "shape.h"
#include "watch.h"

#include <errno.h>

/* ---- the end of rings, flows and destinations ----
 *
 * They end when all messages that were sent before the close have been taken. */

/* The others end in the next rounds: each end touches memory that is in no cache. */
enum { CLOSINGS_AT_ONCE = 32 };

void ring_end(struct loop *loop, struct loop_ring *ring)
{
	watch_end(loop, ring);
	alive_end(loop, ring);
	ring->closed = true;
	ring_retire_if_done(loop, ring);
}

void flow_end(struct loop *loop, struct loop_ring *ring, uint32_t index)
{
	struct loop_flow *flow = ring->flows[index];

	ring->flows[index] = NULL;
	flow->closed = true;
	ktsn_ring_reports_discard(&ring->consumer, index);
	flow_retire_if_done(loop, flow);
}

void destination_end(struct loop *loop, struct loop_ring *ring, uint32_t index)
{
	struct loop_destination *destination = ring->destinations[index];

	ring->destinations[index] = NULL;
	destination->closed = true;
	destination_retire_if_done(loop, destination);
}

void flow_end_later(struct loop_ring *ring, uint32_t index)
{
	struct loop_flow *flow = ring->flows[index];

	flow->closing_index = index;
	flow->closing_next = ring->closing_flows;
	ring->closing_flows = flow;
}

void destination_end_later(struct loop_ring *ring, uint32_t index)
{
	struct loop_destination *destination = ring->destinations[index];

	destination->closing_index = index;
	destination->closing_next = ring->closing_destinations;
	ring->closing_destinations = destination;
}

bool closings_wait(const struct loop_ring *ring)
{
	return ring->closing_destinations || ring->closing_flows;
}

void closings_end(struct loop *loop, struct loop_ring *ring)
{
	uint32_t left = CLOSINGS_AT_ONCE;
	struct loop_destination *destination;
	struct loop_flow *flow;

	for (; left && (destination = ring->closing_destinations); left--) {
		ring->closing_destinations = destination->closing_next;
		destination_end(loop, ring, destination->closing_index);
	}
	for (; left && (flow = ring->closing_flows); left--) {
		ring->closing_flows = flow->closing_next;
		flow_end(loop, ring, flow->closing_index);
	}
	if (closings_wait(ring))
		watch_ring(loop, ring);
}

/* ---- taking ---- */

/* Messages that are taken of one pod before another pod has its turn. */
enum { TAKE_TURN = 32 };

enum drained { DRAINED, DRAINED_IN_PART, DRAINED_NO_MEMORY };

/* Takes at most `most` messages, as many as there are and as time and memory allow. */
static enum drained ring_drain(struct loop *loop, struct loop_ring *ring, uint32_t most)
{
	struct ktsn_ring_taken taken;
	uint32_t count = 0;
	int result, err;

	(void)loop_offsets(loop);
	clocks_watch(loop);
	if (quota_blocks(loop, ring->quota, loop->round.now_tai_ns))
		return DRAINED_IN_PART;
	while ((result = ktsn_ring_take(&ring->consumer, &taken)) != 0) {
		/* An invalid message counts as a message, and so does a search for the oldest (-EAGAIN): they
		 * take as long. */
		if (result == -EBADMSG) {
			message_reject(loop, ring, &taken, NULL, &loop->counters.drop_invalid);
		} else if (result > 0 && (err = message_accept(loop, ring, &taken))) {
			ktsn_ring_untake(&ring->consumer, &taken);
			return err == -ENOBUFS ? DRAINED_NO_MEMORY : DRAINED_IN_PART;
		}
		/* Neither a flood nor an application that refills all the time must hold up the others. */
		count++;
		loop->round.taken++;
		if (!ktsn_ring_ready(&ring->consumer))
			return DRAINED;
		if (count >= most ||
		    (loop->round.taken % TAKE_AT_ONCE == 0 && round_must_end(loop, ring->quota)) ||
		    quota_blocks(loop, ring->quota, loop->round.now_tai_ns))
			return DRAINED_IN_PART;
	}
	return DRAINED;
}

/* The ring may be empty by now: a message that was left in it was taken, or its application withdrew it. */
static enum drained ring_poll(struct loop *loop, struct loop_ring *ring, uint32_t most)
{
	enum drained drained;

	counter_add(&loop->watch.polls, 1);
	loop->round.taken++;
	if (!ktsn_ring_ready(&ring->consumer))
		return DRAINED;
	loop->round.now_tai_ns = clock_tai_ns();
	drained = ring_drain(loop, ring, most);
	if (drained == DRAINED_NO_MEMORY) {
		counter_add(&loop->counters.frame_pool_empty, 1);
		loop->pool.is_short = true;
	}
	return drained;
}

/* Returns whether messages were left in the ring. The ring may be retired after this. */
static bool ring_take(struct loop *loop, struct loop_ring *ring, uint32_t most)
{
	enum drained drained;

	if (!ring->opened || ring->closed)
		return false;
	ring->busy++;
	drained = ring_poll(loop, ring, most);
	watch_polled(loop, ring, drained != DRAINED);
	ring->busy--;
	if (drained == DRAINED && !ring->busy)
		closings_end(loop, ring);
	if (drained == DRAINED && ring->closing && !ring->busy && !closings_wait(ring))
		ring_end(loop, ring);
	else
		ring_retire_if_done(loop, ring);
	return drained != DRAINED;
}

void loop_take_ring(struct loop *loop, struct loop_ring *ring)
{
	/* A stopped loop would never send the messages. They are left to the next ktsnd. */
	if (!loop_stopped(loop))
		(void)ring_take(loop, ring, ring->consumer.slot_count);
}

void loop_take_turn(struct loop *loop, struct loop_ring *ring)
{
	if (!loop_stopped(loop))
		(void)ring_take(loop, ring, TAKE_TURN);
}

/* CLOCK_TAI was set back since the last round. */
static void clock_set_back(struct loop *loop)
{
	for (int i = 0; i < EGRESSES; i++) {
		ktsn_shaper_clock_set_back(loop->egress[i].shaper);
		loop->egress[i].retry_tai_ns = 0;
	}
	quotas_clock_set_back(loop);
	throttle_clock_set_back(loop);
	loop->wait.doorbells_polled_tai_ns = 0;
	watch_reset(loop);
}

/* Takes the turn of the next pod. Returns whether messages were taken or a ring needs no polling any more. */
static bool turn_take(struct loop *loop)
{
	struct loop_ring *ring = watch_turn(loop);
	uint32_t count;
	bool left;

	/* If the pod has used up its quota, none of its rings has to be polled. */
	if (ktsn_ring_ready(&ring->consumer) && quota_exhausted(loop, ring->quota, loop->round.now_tai_ns)) {
		(void)quota_blocks(loop, ring->quota, loop->round.now_tai_ns);
		return false;
	}
	count = loop->round.taken;
	left = ring_take(loop, ring, loop->watch.quota_count > 1 ? TAKE_TURN : ring->consumer.slot_count);
	/* Polling itself counted as one. */
	return loop->round.taken - count > 1 || !left;
}

void loop_take(struct loop *loop)
{
	uint32_t in_vain = 0;

	loop->round.began_tai_ns = loop->round.now_tai_ns = clock_tai_ns();
	loop->round.taken = 0;
	if (loop->round.began_tai_ns < loop->round.last_began_tai_ns)
		clock_set_back(loop);
	loop->round.last_began_tai_ns = loop->round.began_tai_ns;
	clocks_watch(loop);
	alive_update(loop);
	quotas_due(loop, loop->round.began_tai_ns);
	throttle_release(loop, loop->round.began_tai_ns);
	pending_release(loop);
	held_continue(loop);
	watch_due(loop, loop->round.began_tai_ns + loop->wait.lead_ns);
	/* Pods for which no time is left have their turn in the next round. */
	while (loop->watch.quotas && in_vain < loop->watch.quota_count &&
	       loop->round.taken < loop->config.packets &&
	       (loop->round.taken < TAKE_AT_ONCE || !round_must_end(loop, watch_quota(loop))))
		in_vain = turn_take(loop) ? 0 : in_vain + 1;
	replication_continue(loop);
	loop->wait.asleep_tai_ns = loop->round.began_tai_ns;
}
