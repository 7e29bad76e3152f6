/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of networks that have lost the node's clock, and clocks that are set while messages wait.
 */
#include "clock_changes.h"

#include "container_of.h"
#include "leftist_heap.h"
#include "outcome.h"
#include "pool.h"
#include "round.h"

#include <stdlib.h>

/* ---- held packets: a heap in their attachment, by time ---- */
/* Whether some copies of its message have left. Then the others leave too, whatever the clock: a successor
 * would not send them (ktsn_ring_depart), and receivers must not get the same message at very different
 * times. */
static bool held_has_left_in_part(const struct packet *packet)
{
	return packet->message->replicated && packet->message->copies_sent;
}

bool held_concerns(const struct packet *packet)
{
	const struct loop_attachment *attachment = packet->message->destination->attachment;

	if (!attachment || packet->shaper.untimed || held_has_left_in_part(packet))
		return false;
	return attachment->clock == LOOP_CLOCK_HOLD ||
	       (attachment->held && ktsn_packet_before(attachment->held, &packet->shaper));
}

static struct packet *held_first(const struct loop_attachment *attachment)
{
	return container_of(attachment->held, struct packet, shaper);
}

static void held_list_add(struct loop *loop, struct loop_attachment *attachment)
{
	attachment->releasing =
		attachment->clock != LOOP_CLOCK_HOLD || held_has_left_in_part(held_first(attachment));
	attachment->over_tai_ns = 0;
	loop->held.holding_count += !attachment->releasing;
	ring_list_add(attachment->releasing ? &loop->held.releasing : &loop->held.holding,
		      &attachment->held_entry);
}

static void held_list_remove(struct loop *loop, struct loop_attachment *attachment)
{
	loop->held.holding_count -= !attachment->releasing;
	ring_list_remove(attachment->releasing ? &loop->held.releasing : &loop->held.holding,
			 &attachment->held_entry);
}

/* Returns until when a packet may be held: as long as its pod's horizon, or as the strategy allows. */
static int64_t held_over_tai_ns(const struct loop *loop, const struct packet *packet)
{
	const struct quota *quota = packet->message->flow->ring->quota;
	int64_t most_ns = atomic_load_explicit(&quota->horizon_ns, memory_order_relaxed);
	int64_t lateness_ns = ktsn_shaper_lateness_max(loop->egress[packet->egress].shaper, &packet->shaper);

	if (lateness_ns < most_ns)
		most_ns = lateness_ns;
	return most_ns < KTSN_SHAPER_NEVER - packet->shaper.txtime_tai_ns
		       ? packet->shaper.txtime_tai_ns + most_ns
		       : KTSN_SHAPER_NEVER - 1;
}

static void count_add(struct loop *loop, uint32_t packets)
{
	loop->held.count += packets;
	loop->held.concerns += packets;
}

static int64_t earlier(int64_t a_tai_ns, int64_t b_tai_ns)
{
	return a_tai_ns < b_tai_ns ? a_tai_ns : b_tai_ns;
}

/* Checks by this time for packets that were held for too long. The current check may have passed the packet,
 * so its result changes too. */
static void held_check_by(struct loop *loop, int64_t tai_ns)
{
	loop->held.over_tai_ns = earlier(loop->held.over_tai_ns, tai_ns);
	loop->held.checked_tai_ns = earlier(loop->held.checked_tai_ns, tai_ns);
}

void held_add(struct loop *loop, struct ktsn_shaper_packet *shaped)
{
	struct packet *packet = container_of(shaped, struct packet, shaper);
	struct loop_attachment *attachment = packet->message->destination->attachment;
	bool is_first = !attachment->held;
	int64_t over = held_over_tai_ns(loop, packet);

	packet->late_reason = LATE_CLOCK;
	attachment->held = ktsn_leftist_heap_push(attachment->held, shaped);
	if (is_first)
		held_list_add(loop, attachment);
	attachment->over_tai_ns = is_first ? over : earlier(attachment->over_tai_ns, over);
	if (!loop->held.count)
		loop->held.over_tai_ns = KTSN_SHAPER_NEVER;
	count_add(loop, 1);
	held_check_by(loop, over);
}

/* The first. */
static struct packet *held_pop(struct loop *loop, struct loop_attachment *attachment)
{
	struct packet *packet = held_first(attachment);

	attachment->held = ktsn_leftist_heap_pop(attachment->held);
	count_add(loop, (uint32_t)-1);
	if (!attachment->held)
		held_list_remove(loop, attachment);
	return packet;
}

static struct packet *held_take(struct loop *loop)
{
	struct ring_list_link *link = loop->held.holding ? loop->held.holding : loop->held.releasing;

	return link ? held_pop(loop, container_of(link, struct loop_attachment, held_entry)) : NULL;
}

enum {
	/* Packets that return to the shaper in a round, and packets that are dropped. */
	CONTINUE_AT_ONCE = 32,
	/* Between two checks for packets that were held for too long. */
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
	/* The attachment was in this list only because of a message that had left in part. */
	if (attachment->held && attachment->clock == LOOP_CLOCK_HOLD &&
	    !held_has_left_in_part(held_first(attachment))) {
		held_list_remove(loop, attachment);
		held_list_add(loop, attachment);
		held_check_by(loop, 0);
	}
	ktsn_shaper_restore(loop->egress[packet->egress].shaper, quota_lane(packet), &packet->shaper,
			    loop->round.now_tai_ns);
}

/* Whether there is time for a turn of the next pod. The clock is read every TAKE_AT_ONCE turns. */
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

/* ---- packets that were held for too long ---- */

/* Takes the turn of the next attachment: drops at most `most` packets that were held for too long. Returns
 * how many. All other attachments have their turn before its next one. */
static uint32_t turn_drop(struct loop *loop, uint32_t most)
{
	struct loop_attachment *attachment =
		container_of(loop->held.holding, struct loop_attachment, held_entry);
	uint32_t dropped = 0;

	loop->held.holding = attachment->held_entry.next;
	/* None of its packets is touched before that time. */
	if (attachment->over_tai_ns >= loop->round.now_tai_ns) {
		held_check_by(loop, attachment->over_tai_ns);
		return 0;
	}
	while (dropped < most && attachment->held &&
	       held_over_tai_ns(loop, held_first(attachment)) < loop->round.now_tai_ns) {
		packet_drop(loop, held_pop(loop, attachment), &loop->counters.drop_clock);
		dropped++;
	}
	if (attachment->held) {
		attachment->over_tai_ns = held_over_tai_ns(loop, held_first(attachment)) + 1;
		held_check_by(loop, attachment->over_tai_ns);
	}
	return dropped;
}

static void check_begin(struct loop *loop)
{
	loop->held.checks_left = loop->held.holding_count;
	loop->held.checked_tai_ns = KTSN_SHAPER_NEVER;
}

/* All attachments have had their turn. An attachment with more packets to drop has its next turn at once. */
static void check_end(struct loop *loop)
{
	int64_t next_tai_ns = loop->held.checked_tai_ns;
	int64_t soon_tai_ns = loop->round.now_tai_ns + OVER_EVERY_NS;

	if (next_tai_ns >= loop->round.now_tai_ns && next_tai_ns < soon_tai_ns)
		next_tai_ns = soon_tai_ns;
	loop->held.checks_left = 0;
	loop->held.over_tai_ns = next_tai_ns;
}

/* Whether there is time for the next attachment in the list, which is not empty. */
static bool check_may_continue(struct loop *loop, uint32_t checks)
{
	const struct loop_attachment *next =
		container_of(loop->held.holding, const struct loop_attachment, held_entry);

	return !checks || checks % TAKE_AT_ONCE ||
	       !round_must_end(loop, held_first(next)->message->flow->ring->quota);
}

/* The check continues in the next round if others have departures due or enough packets were dropped. */
static void some_drop(struct loop *loop)
{
	uint32_t left = CONTINUE_AT_ONCE, checks = 0;

	if (!loop->held.checks_left)
		check_begin(loop);
	while (loop->held.checks_left && loop->held.holding) {
		uint32_t most = left < TAKE_AT_ONCE ? left : TAKE_AT_ONCE;

		if (!left || !check_may_continue(loop, checks))
			return;
		checks++;
		loop->held.checks_left--;
		left -= turn_drop(loop, most);
	}
	check_end(loop);
}

/* ---- rounds and commands ---- */

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
	held_check_by(loop, 0);
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
		held_check_by(loop, 0);
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
	/* Sequence numbers are modulo 2^52. */
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
	/* Only now: a sender that has not seen the bits has a lower number, or is just sending. */
	held_refusal_begin(ring);
}

/* ---- a clock is set ----
 *
 * A message keeps its time on its own clock. When CLOCK_TAI moves against that clock, because its offset or
 * the time of day was set, all waiting messages of that clock get new times. Messages on CLOCK_TAI itself
 * keep theirs. */

/* Takes all packets out of the shapers, as a list. */
static struct packet *all_take(struct loop *loop)
{
	struct packet *taken = NULL, *packet;

	for (int i = 0; i < EGRESSES; i++) {
		struct ktsn_shaper_packet *shaped;

		while ((shaped = ktsn_shaper_take(loop->egress[i].shaper))) {
			packet = (struct packet *)shaped;
			packet->next = taken;
			taken = packet;
		}
	}
	/* Packets whose time is still in the past are held again when they leave the shaper. */
	while (held_any(loop) && (packet = held_take(loop))) {
		packet->next = taken;
		taken = packet;
	}
	return taken;
}

static void packet_move(struct packet *packet, const int64_t moved_ns[KTSN_CLOCKS])
{
	int64_t moved = packet->shaper.txtime_tai_ns + moved_ns[packet->message->flow->clock];

	if (moved < 0)
		moved = 0;
	packet->shaper.txtime_tai_ns = moved > KTSN_TXTIME_MAX_NS ? KTSN_TXTIME_MAX_NS : moved;
	/* The requested time moves too; all copies of a message have the same. */
	packet->message->requested_tai_ns = packet->shaper.txtime_tai_ns;
}

/* Messages that wait for an address move too. They keep their order: all messages of a destination belong to
 * one flow and so to one clock. */
static void all_move(struct loop *loop, const int64_t moved_ns[KTSN_CLOCKS])
{
	struct packet *taken = all_take(loop);

	for (uint32_t i = 0; i < loop->config.packets; i++)
		if (loop->pool.packets[i].held)
			packet_move(&loop->pool.packets[i], moved_ns);
	while (taken) {
		struct packet *next = taken->next;

		ktsn_shaper_restore(loop->egress[taken->egress].shaper, quota_lane(taken), &taken->shaper,
				    loop->round.now_tai_ns);
		taken = next;
	}
}

void clocks_watch(struct loop *loop)
{
	struct clock_offsets before = loop->clocks.held_offsets;
	int64_t moved_ns[KTSN_CLOCKS];
	bool stepped = false;

	if (!loop->clocks.foreign_packets)
		return;
	(void)loop_offsets(loop);
	for (int clock = 0; clock < KTSN_CLOCKS; clock++) {
		moved_ns[clock] = loop->clocks.offsets.to_tai_ns[clock] - before.to_tai_ns[clock];
		stepped |= llabs(moved_ns[clock]) >= CLOCK_STEP_NS;
	}
	if (!stepped)
		return;
	loop->clocks.held_offsets = loop->clocks.offsets;
	all_move(loop, moved_ns);
}
