/* SPDX-License-Identifier: Apache-2.0 */
#include "held.h"

#include "container_of.h"
#include "finish.h"
#include "quotas.h"
#include "round.h"

enum {
	/* So many go back into the shaper in a round, and so many are dropped. */
	CONTINUE_AT_ONCE = 32,
	/* Between two looks for those that have waited for too long. */
	OVER_EVERY_NS = 1000000,
};

/* ---- the clock is good again ---- */

static void turn_release(struct loop *loop)
{
	struct loop_attachment *attachment =
		container_of(loop->held.releasing, struct loop_attachment, held_entry);
	struct packet *packet;

	loop->held.releasing = attachment->held_entry.next;
	packet = held_pop(loop, attachment);
	/* It was on its way only for a message that had begun. */
	if (attachment->held && attachment->clock == LOOP_CLOCK_HOLD &&
	    !held_has_begun(held_first(attachment))) {
		held_list_remove(loop, attachment);
		held_list_add(loop, attachment);
		held_look_by(loop, 0);
	}
	ktsn_shaper_restore(loop->egress[packet->egress].shaper, quota_lane(packet), &packet->shaper,
			    loop->round.now_tai_ns);
}

/* Whether there is time for more turns, of the pod that is next. The clock is read every TAKE_AT_ONCE turns.
 */
static bool turns_may_continue(struct loop *loop, uint32_t turns)
{
	const struct loop_attachment *next =
		container_of(loop->held.releasing, const struct loop_attachment, held_entry);

	if (turns >= CONTINUE_AT_ONCE)
		return false;
	return !turns || turns % TAKE_AT_ONCE ||
	       !round_must_end(loop, held_first(next)->message->flow->ring->quota);
}

static void some_release(struct loop *loop)
{
	for (uint32_t turns = 0; loop->held.releasing && turns_may_continue(loop, turns); turns++)
		turn_release(loop);
	if (loop->held.releasing)
		quota_wake_by(loop, loop->round.now_tai_ns);
}

/* ---- they have waited for too long ---- */

/* Its turn: those that are over, at most so many, of which the number is returned. Others have theirs before
 * its next, however many it has. */
static uint32_t turn_drop(struct loop *loop, uint32_t most)
{
	struct loop_attachment *attachment =
		container_of(loop->held.holding, struct loop_attachment, held_entry);
	uint32_t dropped = 0;

	loop->held.holding = attachment->held_entry.next;
	/* What it has is not touched before. */
	if (attachment->over_tai_ns >= loop->round.now_tai_ns) {
		held_look_by(loop, attachment->over_tai_ns);
		return 0;
	}
	while (dropped < most && attachment->held &&
	       held_over_tai_ns(loop, held_first(attachment)) < loop->round.now_tai_ns) {
		packet_drop(loop, held_pop(loop, attachment), &loop->counters.drop_clock);
		dropped++;
	}
	if (attachment->held) {
		attachment->over_tai_ns = held_over_tai_ns(loop, held_first(attachment)) + 1;
		held_look_by(loop, attachment->over_tai_ns);
	}
	return dropped;
}

static void look_begin(struct loop *loop)
{
	loop->held.looks_left = loop->held.holding_count;
	loop->held.looked_tai_ns = KTSN_SHAPER_NEVER;
}

/* All have had their turns. Those that have more that are over have the next at once. */
static void look_end(struct loop *loop)
{
	int64_t next_tai_ns = loop->held.looked_tai_ns;
	int64_t soon_tai_ns = loop->round.now_tai_ns + OVER_EVERY_NS;

	if (next_tai_ns >= loop->round.now_tai_ns && next_tai_ns < soon_tai_ns)
		next_tai_ns = soon_tai_ns;
	loop->held.looks_left = 0;
	loop->held.over_tai_ns = next_tai_ns;
}

/* Before the next of the list, of which there is one. */
static bool look_may_continue(struct loop *loop, uint32_t looks)
{
	const struct loop_attachment *next =
		container_of(loop->held.holding, const struct loop_attachment, held_entry);

	return !looks || looks % TAKE_AT_ONCE ||
	       !round_must_end(loop, held_first(next)->message->flow->ring->quota);
}

/* The look goes on in the next round where others have departures due, or enough were dropped. */
static void some_drop(struct loop *loop)
{
	uint32_t left = CONTINUE_AT_ONCE, looks = 0;

	if (!loop->held.looks_left)
		look_begin(loop);
	while (loop->held.looks_left && loop->held.holding) {
		uint32_t most = left < TAKE_AT_ONCE ? left : TAKE_AT_ONCE;

		if (!left || !look_may_continue(loop, looks))
			return;
		looks++;
		loop->held.looks_left--;
		left -= turn_drop(loop, most);
	}
	look_end(loop);
}

/* ---- what the loop and its commands call ---- */

void held_continue(struct loop *loop)
{
	if (!loop->held.count)
		return;
	if (loop->held.releasing)
		some_release(loop);
	if (loop->round.now_tai_ns >= loop->held.over_tai_ns)
		some_drop(loop);
}

int64_t held_next(const struct loop *loop)
{
	return loop->held.holding ? loop->held.over_tai_ns : KTSN_SHAPER_NEVER;
}

void held_limits_changed(struct loop *loop)
{
	struct ring_list_link *first = loop->held.holding, *link = first;

	if (!link)
		return;
	do {
		container_of(link, struct loop_attachment, held_entry)->over_tai_ns = 0;
		link = link->next;
	} while (link != first);
	held_look_by(loop, 0);
}

void held_clock_set(struct loop *loop, struct loop_attachment *attachment, enum loop_clock clock)
{
	bool was_lost = attachment->clock != LOOP_CLOCK_GOOD, is_lost = clock != LOOP_CLOCK_GOOD;

	if (attachment->held)
		held_list_remove(loop, attachment);
	attachment->clock = clock;
	if (attachment->held)
		held_list_add(loop, attachment);
	loop->held.lost += (uint32_t)is_lost - (uint32_t)was_lost;
	loop->held.concerns += (uint32_t)is_lost - (uint32_t)was_lost;
	if (loop->held.count)
		held_look_by(loop, 0);
}

/* ---- refusal ---- */

static bool is_refused(const struct loop_destination *destination)
{
	return destination->attachment && destination->attachment->clock == LOOP_CLOCK_REFUSE;
}

bool held_refuses(const struct loop_ring *ring, const struct loop_destination *destination,
		  const struct ktsn_ring_taken *taken)
{
	if (!is_refused(destination))
		return false;
	/* Modulo 2^52. */
	return !ring->sent_before_most ||
	       (int64_t)((taken->sequence - ring->sent_before) << KTSN_RING_ORDER_SLOT_BITS) >= 0;
}

void held_refusal_pass(struct loop_ring *ring, const struct loop_destination *destination)
{
	if (is_refused(destination) && ring->sent_before_most)
		ring->sent_before_most--;
}

void held_refusal_begin(struct loop_ring *ring)
{
	ring->sent_before = atomic_load_explicit(&ring->consumer.header->next_sequence, memory_order_relaxed);
	ring->sent_before_most = ring->consumer.slot_count;
}

void held_refusal_set(struct loop_ring *ring, uint64_t refused)
{
	ktsn_ring_refused_set(&ring->consumer, refused);
	/* After that: whoever has not seen it has a lower number, or is just sending. */
	held_refusal_begin(ring);
}
