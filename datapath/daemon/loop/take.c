/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose messages are taken, and how many at once: pods take turns, and what comes due goes before.
 */
#include "loop_state.h"

#include <errno.h>

enum {
	/* No more are taken when a departure is nearer than TAKE_AT_ONCE of them take, */
	TAKE_SPARE_NS = 8000,
	/* or when one is due, or commands wait, and taking has gone on for so long, */
	TAKE_LONGEST_NS = 100000,
	/* or when another pod's came due not longer ago: what has waited for longer waits for something else. */
	TAKE_FRESH_NS = 50000,
	/* So many messages of a pod are taken before another has its turn. */
	TAKE_TURN = 32,
};

/* Whether something of another pod is due, or nearly, and cannot be waiting for anything else. */
static bool others_call(const struct loop *loop, const struct quota *quota)
{
	for (int i = 0; i < OUTLETS; i++) {
		int64_t due_tai_ns = ktsn_shaper_due_excluding(loop->outlets[i].shaper, quota->lanes[i]);

		if (due_tai_ns < loop->round_tai_ns + TAKE_SPARE_NS &&
		    due_tai_ns > loop->round_tai_ns - TAKE_FRESH_NS)
			return true;
	}
	return false;
}

bool departure_calls(struct loop *loop, const struct quota *quota)
{
	int64_t left_ns;
	bool is_long;

	loop->round_tai_ns = clock_tai_ns();
	is_long = loop->round_tai_ns - loop->take_began_tai_ns > TAKE_LONGEST_NS;
	left_ns = loop_departure_next(loop, loop->round_tai_ns) - loop->round_tai_ns;
	if (left_ns > 0)
		return left_ns < TAKE_SPARE_NS || (is_long && loop_commands_left(loop));
	return is_long || others_call(loop, quota);
}

enum drained { DRAINED, DRAINED_IN_PART, DRAINED_NO_MEMORY };

/* Takes all that is ready, or as many as there is time and memory for, and not more than `most`. */
static enum drained ring_drain(struct loop *loop, struct loop_ring *ring, uint32_t most)
{
	struct ktsn_ring_taken taken;
	uint32_t count = 0;
	int result, err;

	(void)loop_offsets(loop);
	clocks_watch(loop);
	if (quota_holds(loop, ring->quota, loop->round_tai_ns))
		return DRAINED_IN_PART;
	while ((result = ktsn_ring_take(&ring->consumer, &taken)) != 0) {
		/* What is claimed to be a message and is none counts as one: it takes as long. */
		if (result == -EBADMSG) {
			message_reject(loop, ring, &taken, NULL, &loop->counters.drop_invalid);
		} else if (result > 0 && (err = message_accept(loop, ring, &taken))) {
			ktsn_ring_untake(&ring->consumer, taken.slot);
			return err == -ENOBUFS ? DRAINED_NO_MEMORY : DRAINED_IN_PART;
		}
		/* Neither a flood nor an application that refills all the time must hold up the others. */
		count++;
		loop->take_count++;
		if (!ktsn_ring_ready(&ring->consumer))
			return DRAINED;
		if (count >= most ||
		    (loop->take_count % TAKE_AT_ONCE == 0 && departure_calls(loop, ring->quota)) ||
		    quota_holds(loop, ring->quota, loop->round_tai_ns))
			return DRAINED_IN_PART;
	}
	return DRAINED;
}

/* What was left in it may have been taken since, or was a lie that its application took back. */
static enum drained ring_look(struct loop *loop, struct loop_ring *ring, uint32_t most)
{
	enum drained drained;

	counter_add(&loop->looks, 1);
	loop->take_count++;
	if (!ktsn_ring_ready(&ring->consumer))
		return DRAINED;
	loop->round_tai_ns = clock_tai_ns();
	drained = ring_drain(loop, ring, most);
	if (drained == DRAINED_NO_MEMORY) {
		counter_add(&loop->counters.frame_pool_empty, 1);
		loop->memory_short = true;
	}
	return drained;
}

/* Whether messages were left in it. It may be gone after this. */
static bool ring_take(struct loop *loop, struct loop_ring *ring, uint32_t most)
{
	enum drained drained;

	if (!ring->opened || ring->closed)
		return false;
	ring->busy++;
	drained = ring_look(loop, ring, most);
	watch_looked(loop, ring, drained != DRAINED);
	ring->busy--;
	if (drained == DRAINED && ring->closings && !ring->busy)
		closings_end(loop, ring);
	if (drained == DRAINED && ring->closing && !ring->busy)
		ring_end(loop, ring);
	else
		ring_retire_if_done(loop, ring);
	return drained != DRAINED;
}

void loop_take_ring(struct loop *loop, struct loop_ring *ring)
{
	(void)ring_take(loop, ring, ring->consumer.slot_count);
}

/* Since the round before. */
static void clock_set_back(struct loop *loop)
{
	for (int i = 0; i < OUTLETS; i++) {
		ktsn_shaper_clock_set_back(loop->outlets[i].shaper);
		loop->outlets[i].retry_tai_ns = 0;
	}
	quotas_clock_set_back(loop);
	loop->doorbells_polled_tai_ns = 0;
	watch_forget(loop);
}

/* A pod has its turn. Whether that led anywhere: messages were taken, or there is a ring less to look into. */
static bool turn_take(struct loop *loop)
{
	struct loop_ring *ring = watch_turn(loop);
	uint32_t count;
	bool left;

	/* None of its rings may be taken from: one look tells that of all. */
	if (ktsn_ring_ready(&ring->consumer) && quota_shut(loop, ring->quota, loop->round_tai_ns)) {
		(void)quota_holds(loop, ring->quota, loop->round_tai_ns);
		return false;
	}
	count = loop->take_count;
	left = ring_take(loop, ring, loop->watched_quotas > 1 ? TAKE_TURN : ring->consumer.slot_count);
	/* The look itself was one. */
	return loop->take_count - count > 1 || !left;
}

/* Whether a departure leaves time for another turn of that pod. */
static bool take_may_go_on(struct loop *loop)
{
	return loop->take_count < TAKE_AT_ONCE || !departure_calls(loop, watch_quota(loop));
}

void loop_take(struct loop *loop)
{
	uint32_t in_vain = 0;

	loop->rounds++;
	loop->take_began_tai_ns = loop->round_tai_ns = clock_tai_ns();
	loop->take_count = 0;
	if (loop->take_began_tai_ns < loop->last_tai_ns)
		clock_set_back(loop);
	loop->last_tai_ns = loop->take_began_tai_ns;
	clocks_watch(loop);
	quotas_unmute(loop, loop->take_began_tai_ns);
	pending_release(loop);
	watch_due(loop, loop->take_began_tai_ns + loop->lead_ns);
	/* Those for which there is no time have their turn in the next round. */
	while (loop->watched && in_vain < loop->watched_quotas && loop->take_count < loop->config.packets &&
	       take_may_go_on(loop))
		in_vain = turn_take(loop) ? 0 : in_vain + 1;
	copies_go_on(loop);
	loop->asleep_tai_ns = loop->take_began_tai_ns;
}
