/* SPDX-License-Identifier: Apache-2.0 */
#include "held.h"

#include "container_of.h"
#include "finish.h"
#include "leftist_heap.h"
#include "quotas.h"
#include "round.h"

enum {
	/* So many go back into the shaper in a round, and so many are dropped. */
	CONTINUE_AT_ONCE = 32,
	/* Between two looks for those that have waited for too long. */
	OVER_EVERY_NS = 1000000,
};

bool held_concerns(const struct packet *packet)
{
	const struct loop_attachment *attachment = packet->message->destination->attachment;

	if (!attachment || packet->shaper.untimed)
		return false;
	return attachment->clock == LOOP_CLOCK_HOLD ||
	       (attachment->held && ktsn_packet_before(attachment->held, &packet->shaper));
}

static struct ring_list_link **list_of(struct loop *loop, const struct loop_attachment *attachment)
{
	return attachment->clock == LOOP_CLOCK_HOLD ? &loop->held.holding : &loop->held.releasing;
}

static struct packet *first_of(const struct loop_attachment *attachment)
{
	return container_of(attachment->held, struct packet, shaper);
}

/* How late it may be: as long as its pod's messages may be ahead of their times, or as long as the strategy
 * allows. */
static int64_t over_tai_ns(const struct loop *loop, const struct packet *packet)
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

static void look_by(struct loop *loop, int64_t tai_ns)
{
	if (tai_ns < loop->held.over_tai_ns)
		loop->held.over_tai_ns = tai_ns;
}

void held_add(struct loop *loop, struct ktsn_shaper_packet *shaped)
{
	struct packet *packet = container_of(shaped, struct packet, shaper);
	struct loop_attachment *attachment = packet->message->destination->attachment;

	packet->late_reason = LATE_CLOCK;
	if (!attachment->held)
		ring_list_add(list_of(loop, attachment), &attachment->held_entry);
	attachment->held = ktsn_leftist_heap_push(attachment->held, shaped);
	if (!loop->held.count)
		loop->held.over_tai_ns = KTSN_SHAPER_NEVER;
	count_add(loop, 1);
	look_by(loop, over_tai_ns(loop, packet));
}

/* The first. */
static struct packet *pop(struct loop *loop, struct loop_attachment *attachment)
{
	struct packet *packet = first_of(attachment);

	attachment->held = ktsn_leftist_heap_pop(attachment->held);
	count_add(loop, (uint32_t)-1);
	if (!attachment->held)
		ring_list_remove(list_of(loop, attachment), &attachment->held_entry);
	return packet;
}

struct packet *held_take(struct loop *loop)
{
	struct ring_list_link *link = loop->held.holding ? loop->held.holding : loop->held.releasing;

	return link ? pop(loop, container_of(link, struct loop_attachment, held_entry)) : NULL;
}

/* ---- the clock is good again ---- */

static void turn_release(struct loop *loop)
{
	struct loop_attachment *attachment =
		container_of(loop->held.releasing, struct loop_attachment, held_entry);
	struct packet *packet;

	loop->held.releasing = attachment->held_entry.next;
	packet = pop(loop, attachment);
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
	       !round_must_end(loop, first_of(next)->message->flow->ring->quota);
}

static void some_release(struct loop *loop)
{
	for (uint32_t turns = 0; loop->held.releasing && turns_may_continue(loop, turns); turns++)
		turn_release(loop);
	if (loop->held.releasing)
		quota_wake_by(loop, loop->round.now_tai_ns);
}

/* ---- they have waited for too long ---- */

/* Those of one attachment, at most so many, of which the number is returned. */
static uint32_t over_drop(struct loop *loop, struct loop_attachment *attachment, uint32_t most)
{
	uint32_t dropped = 0;

	while (dropped < most && attachment->held &&
	       over_tai_ns(loop, first_of(attachment)) < loop->round.now_tai_ns) {
		packet_drop(loop, pop(loop, attachment), &loop->counters.drop_clock);
		dropped++;
	}
	if (attachment->held)
		look_by(loop, over_tai_ns(loop, first_of(attachment)) + 1);
	return dropped;
}

static void some_drop(struct loop *loop)
{
	uint32_t left = CONTINUE_AT_ONCE;
	const struct ring_list_link *last = loop->held.holding ? loop->held.holding->previous : NULL;
	bool more = last != NULL;

	loop->held.over_tai_ns = KTSN_SHAPER_NEVER;
	while (more && loop->held.holding) {
		struct ring_list_link *link = loop->held.holding;

		more = link != last;
		loop->held.holding = link->next;
		left -= over_drop(loop, container_of(link, struct loop_attachment, held_entry), left);
	}
	/* Some are left where the look ended at their number. */
	if (left && loop->held.over_tai_ns < loop->round.now_tai_ns + OVER_EVERY_NS)
		loop->held.over_tai_ns = loop->round.now_tai_ns + OVER_EVERY_NS;
}

/* ---- */

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
	loop->held.over_tai_ns = 0;
}

void held_clock_set(struct loop *loop, struct loop_attachment *attachment, enum loop_clock clock)
{
	bool was_lost = attachment->clock != LOOP_CLOCK_GOOD, is_lost = clock != LOOP_CLOCK_GOOD;

	if (attachment->held)
		ring_list_remove(list_of(loop, attachment), &attachment->held_entry);
	attachment->clock = clock;
	if (attachment->held)
		ring_list_add(list_of(loop, attachment), &attachment->held_entry);
	loop->held.lost += (uint32_t)is_lost - (uint32_t)was_lost;
	loop->held.concerns += (uint32_t)is_lost - (uint32_t)was_lost;
	if (loop->held.count)
		look_by(loop, 0);
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
