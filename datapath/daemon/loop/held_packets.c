/* SPDX-License-Identifier: Apache-2.0 */
#include "held_packets.h"

#include "container_of.h"
#include "leftist_heap.h"

/* Of its copies some have left: the others leave as well, by whatever clock. A successor would not send them
 * (ktsn_ring_depart), and who receives is to have the message now or later, but not some much later. */
bool held_has_begun(const struct packet *packet)
{
	return packet->message->replicated && packet->message->copies_sent;
}

bool held_concerns(const struct packet *packet)
{
	const struct loop_attachment *attachment = packet->message->destination->attachment;

	if (!attachment || packet->shaper.untimed || held_has_begun(packet))
		return false;
	return attachment->clock == LOOP_CLOCK_HOLD ||
	       (attachment->held && ktsn_packet_before(attachment->held, &packet->shaper));
}

struct packet *held_first(const struct loop_attachment *attachment)
{
	return container_of(attachment->held, struct packet, shaper);
}

void held_list_add(struct loop *loop, struct loop_attachment *attachment)
{
	attachment->releasing =
		attachment->clock != LOOP_CLOCK_HOLD || held_has_begun(held_first(attachment));
	attachment->over_tai_ns = 0;
	loop->held.holding_count += !attachment->releasing;
	ring_list_add(attachment->releasing ? &loop->held.releasing : &loop->held.holding,
		      &attachment->held_entry);
}

void held_list_remove(struct loop *loop, struct loop_attachment *attachment)
{
	loop->held.holding_count -= !attachment->releasing;
	ring_list_remove(attachment->releasing ? &loop->held.releasing : &loop->held.holding,
			 &attachment->held_entry);
}

/* How late it may be: as long as its pod's messages may be ahead of their times, or as long as the strategy
 * allows. */
int64_t held_over_tai_ns(const struct loop *loop, const struct packet *packet)
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

static int64_t earlier(int64_t one_tai_ns, int64_t other_tai_ns)
{
	return one_tai_ns < other_tai_ns ? one_tai_ns : other_tai_ns;
}

/* Also by what the look that is under way finds: it may have passed this one. */
void held_look_by(struct loop *loop, int64_t tai_ns)
{
	loop->held.over_tai_ns = earlier(loop->held.over_tai_ns, tai_ns);
	loop->held.looked_tai_ns = earlier(loop->held.looked_tai_ns, tai_ns);
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
	held_look_by(loop, over);
}

/* The first. */
struct packet *held_pop(struct loop *loop, struct loop_attachment *attachment)
{
	struct packet *packet = held_first(attachment);

	attachment->held = ktsn_leftist_heap_pop(attachment->held);
	count_add(loop, (uint32_t)-1);
	if (!attachment->held)
		held_list_remove(loop, attachment);
	return packet;
}

struct packet *held_take(struct loop *loop)
{
	struct ring_list_link *link = loop->held.holding ? loop->held.holding : loop->held.releasing;

	return link ? held_pop(loop, container_of(link, struct loop_attachment, held_entry)) : NULL;
}
