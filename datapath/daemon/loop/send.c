/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shaper -> port. The loop reads the clock and then gives the port the frames that may leave at that time:
 * never early.
 */
#include "send.h"

#include "clock.h"
#include "copy.h"
#include "egress.h"
#include "finish.h"
#include "held.h"
#include "loop_state.h"
#include "message.h"
#include "quotas.h"
#include "seal.h"
#include "withdrawals.h"
#include "yield.h"

enum {
	/* Nearer than this to the next departure nothing else is looked at. */
	LAST_STRETCH_NS = 3000,
	/* So long frames are sent in one go, and one burst longer: a slow port sends a few in that time. */
	SEND_SPELL_NS = 20000,
	/* A port without room is asked again after this time. */
	PORT_RETRY_NS = 20000,
	/* Rounds are over in microseconds. */
	LONG_ROUND_NS = 1000000,
	/* Messages of one pod that the port is given at a time. */
	BURST_OF_QUOTA = 4,
	/* So long before the link is free the port is given a frame behind others: in that time the loop
	   would look at nothing else. */
	BURST_LINK_NS = LAST_STRETCH_NS,
};

/* Stays on the clock for the last stretch before a departure. Returns the time. */
static int64_t last_stretch(struct loop *loop, int64_t now_tai_ns)
{
	int64_t due_tai_ns;

	if (seal_ahead(loop, now_tai_ns))
		now_tai_ns = clock_tai_ns();
	due_tai_ns = egress_departure_next(loop, now_tai_ns);
	if (due_tai_ns == KTSN_SHAPER_NEVER || due_tai_ns - now_tai_ns > LAST_STRETCH_NS)
		return now_tai_ns;
	return clock_tai_spin(now_tai_ns, due_tai_ns);
}

/* One message of a flow only, with its copies: if ktsnd is killed while it sends, what is uncertain is one of
 * each flow. What is untimed may be lost. And a few of a pod: what comes due meanwhile waits until the port
 * has them all. */
static bool burst_may_have(const struct loop *loop, const struct packet *packet)
{
	const struct quota *quota = packet->message->flow->ring->quota;

	return (packet->shaper.untimed || packet->message->flow->burst != loop->send.bursts ||
		packet->message->flow->burst_slot == packet->message->slot) &&
	       (quota->burst != loop->send.bursts || quota->burst_count < BURST_OF_QUOTA);
}

static void burst_note(const struct loop *loop, const struct packet *packet)
{
	struct quota *quota = packet->message->flow->ring->quota;

	packet->message->flow->burst = loop->send.bursts;
	packet->message->flow->burst_slot = packet->message->slot;
	quota->burst_count = quota->burst == loop->send.bursts ? quota->burst_count + 1 : 1;
	quota->burst = loop->send.bursts;
}

/* The next one that may leave with those that were collected. */
static const struct packet *burst_next(const struct loop *loop, const struct egress *egress,
				       int64_t now_tai_ns, int64_t until_tai_ns)
{
	const struct packet *next =
		(const struct packet *)ktsn_shaper_peek_behind(egress->shaper, now_tai_ns, until_tai_ns);

	return next && burst_may_have(loop, next) ? next : NULL;
}

/* At most so many, also of those that do not leave: they take their time too. *dropped is how many these
 * were. */
static uint32_t burst_collect(struct loop *loop, struct egress *egress, int64_t now_tai_ns, uint32_t most,
			      struct packet *burst[KTSN_PORT_BURST], uint32_t *dropped)
{
	uint32_t count = 0;

	*dropped = 0;
	loop->send.bursts++;
	while (count + *dropped < most && now_tai_ns >= egress->retry_tai_ns) {
		int64_t until_tai_ns = now_tai_ns + (count ? BURST_LINK_NS : 0);
		const struct packet *next = burst_next(loop, egress, now_tai_ns, until_tai_ns);
		struct ktsn_shaper_packet *shaped;
		enum ktsn_verdict verdict;

		if (!next)
			break;
		if (held_any(loop) && held_concerns(next)) {
			held_add(loop, ktsn_shaper_withdraw(egress->shaper, now_tai_ns, until_tai_ns));
			(*dropped)++;
			continue;
		}
		if (next->encryption && !seal_possible(loop, next)) {
			packet_drop(loop,
				    (struct packet *)ktsn_shaper_withdraw(egress->shaper, now_tai_ns,
									  until_tai_ns),
				    &loop->counters.drop_no_association);
			(*dropped)++;
			continue;
		}
		shaped = ktsn_shaper_dequeue_behind(egress->shaper, now_tai_ns, until_tai_ns, &verdict);
		if (verdict != KTSN_SEND) {
			packet_drop(loop, (struct packet *)shaped,
				    verdict == KTSN_DROP_MISSED ? &loop->counters.drop_missed
								: &loop->counters.drop_no_window);
			(*dropped)++;
			continue;
		}
		burst[count] = (struct packet *)shaped;
		if (burst[count]->encryption)
			seal_departing(loop, burst[count]);
		burst_note(loop, burst[count]);
		ktsn_ring_depart(&burst[count]->message->flow->ring->consumer, burst[count]->message->slot);
		count++;
	}
	return count;
}

static _Atomic uint64_t *lateness_counter(struct loop *loop, const struct packet *packet,
					  int64_t departed_tai_ns)
{
	struct counters *counters = &loop->counters;

	if (packet->shaper.untimed)
		return &counters->untimed;
	if (departed_tai_ns - packet->message->requested_tai_ns <= loop->config.late_after_ns)
		return &counters->on_time;
	switch (packet->late_reason) {
	case LATE_TAKEN:
		return &counters->late_taken;
	case LATE_PORT:
		return &counters->late_port;
	case LATE_UNRESOLVED:
		return &counters->late_unresolved;
	case LATE_CLOCK:
		return &counters->late_clock;
	case LATE_WAKEUP:
		break;
	}
	switch (packet->shaper.waited) {
	case KTSN_WAIT_GATE:
		return &counters->late_gate;
	case KTSN_WAIT_LINK:
		return &counters->late_link;
	case KTSN_WAIT_NONE:
		break;
	}
	return &counters->late_wakeup;
}

static void packet_sent(struct loop *loop, struct packet *packet, int64_t departed_tai_ns)
{
	_Atomic uint64_t *lateness = lateness_counter(loop, packet, departed_tai_ns);

	packet->message->overrun |= packet->overrun;
	if (packet->message->replicated)
		copy_sent(loop, packet, lateness, departed_tai_ns);
	else
		message_sent(loop, packet->message, lateness, departed_tai_ns);
	if (packet->egress == EGRESS_UPLINK)
		withdrawals_note(loop, packet, lateness);
	packet_finish(loop, packet, true);
}

/* The port did not take the frame: it is offered again a little later, until it is stale. */
static void packet_refused(struct loop *loop, struct packet *packet, int64_t now_tai_ns)
{
	/* A message of which a copy has left must never be sent again, even by a successor. */
	if (!packet->message->replicated || !packet->message->copies_sent)
		ktsn_ring_undepart(&packet->message->flow->ring->consumer, packet->message->slot);
	if (packet->association)
		seal_refused(packet);
	if (!packet->refused_tai_ns)
		packet->refused_tai_ns = now_tai_ns;
	if (now_tai_ns - packet->refused_tai_ns > loop->config.stale_after_ns) {
		packet_drop(loop, packet, &loop->counters.drop_stale);
		return;
	}
	packet->late_reason = LATE_PORT;
	ktsn_shaper_requeue(loop->egress[packet->egress].shaper, quota_lane(packet), &packet->shaper,
			    now_tai_ns);
}

/* Finds frames that were still on the link when their gate shut: the send took longer than the guard band. */
static void overruns_find(struct loop *loop, struct packet *burst[], uint32_t count)
{
	int64_t sent_tai_ns = 0;

	for (uint32_t i = 0; i < count; i++) {
		/* NOLINTNEXTLINE(clang-analyzer-core.*): the caller filled in `count` of them */
		const struct ktsn_shaper_packet *packet = &burst[i]->shaper;

		if (packet->close_tai_ns == KTSN_WINDOW_NEVER)
			continue;
		if (!sent_tai_ns)
			sent_tai_ns = clock_tai_ns();
		if (!ktsn_shaper_overrun(loop->egress[EGRESS_UPLINK].shaper, packet, sent_tai_ns))
			continue;
		burst[i]->overrun = true;
		counter_add(&loop->counters.classes[packet->traffic_class].transmission_overrun, 1);
	}
}

/* The port took it, and it did not leave. Of a device it is not known whether it was this one; onto a bridge
 * it is: the queue of its receiver is full. */
static void packet_failed(struct loop *loop, const struct egress *egress, struct packet *packet)
{
	bool known = egress == &loop->egress[EGRESS_BRIDGE];
	_Atomic uint64_t *reason = known ? &loop->counters.drop_receiver : &loop->counters.drop_port;

	packet_drop_count(loop, packet, reason);
	if (known && !packet->message->replicated)
		message_report(loop, packet->message, reason);
	packet_finish(loop, packet, true);
}

/* Offers the frames to the port, once. Returns how many it took; *failed tells that some of those did not
 * leave. */
static uint32_t burst_offer(struct loop *loop, struct egress *egress, struct packet *burst[], uint32_t count,
			    int64_t now_tai_ns, bool *failed)
{
	struct ktsn_port_frame frames[KTSN_PORT_BURST];
	uint32_t errors = 0, taken;

	for (uint32_t i = 0; i < count; i++)
		frames[i] = burst[i]->frame;
	taken = ktsn_port_send(egress->port, frames, count, &errors);
	overruns_find(loop, burst, taken);
	/* Which of them failed the device does not say: the last ones are counted. */
	for (uint32_t i = 0; i < taken - errors; i++)
		/* NOLINTNEXTLINE(clang-analyzer-core.*): the caller filled in `count` of them */
		packet_sent(loop, burst[i], now_tai_ns);
	for (uint32_t i = taken - errors; i < taken; i++)
		packet_failed(loop, egress, burst[i]);
	*failed = errors > 0;
	return taken;
}

/* A port that stops at a frame that failed has not refused the next ones: they are somebody else's. */
static uint32_t burst_send(struct loop *loop, struct egress *egress, struct packet *burst[], uint32_t count,
			   int64_t now_tai_ns)
{
	uint32_t taken = 0;
	bool failed;

	do
		taken += burst_offer(loop, egress, burst + taken, count - taken, now_tai_ns, &failed);
	while (failed && taken < count);
	/* The last first, so that each sender has the turns that it had before (ktsn_shaper_requeue). */
	for (uint32_t i = count; i-- > taken;)
		packet_refused(loop, burst[i], now_tai_ns);
	if (taken < count) {
		counter_add(&loop->counters.port_retries, 1);
		/* Held back are all, not those that were refused: none must overtake them. */
		egress->retry_tai_ns = now_tai_ns + PORT_RETRY_NS;
	}
	return taken;
}

/* What may leave there now, at most so many. Returns how many there were, 0 also when the port had no room.
 */
static uint32_t egress_send(struct loop *loop, enum egress_id id, int64_t now_tai_ns, uint32_t most)
{
	struct egress *egress = &loop->egress[id];
	struct packet *burst[KTSN_PORT_BURST];
	uint32_t dropped, count = burst_collect(loop, egress, now_tai_ns, most, burst, &dropped);

	if (id == EGRESS_UPLINK && atomic_load_explicit(&loop->control.link_down, memory_order_relaxed))
		for (uint32_t i = 0; i < count; i++)
			packet_drop(loop, burst[i], &loop->counters.drop_port);
	else if (count && burst_send(loop, egress, burst, count, now_tai_ns) < count)
		return 0;
	return count + dropped;
}

/* A round that seems to have taken so long may be one in which CLOCK_TAI was set ahead: messages on other
 * clocks are not due then. Another round tells, once: it may have been the processor that was taken away. */
static bool clock_in_doubt(struct loop *loop, int64_t now_tai_ns)
{
	loop->send.clock_doubted = !loop->send.clock_doubted && loop->clocks.foreign_packets &&
				   now_tai_ns - loop->round.began_tai_ns > LONG_ROUND_NS;
	return loop->send.clock_doubted;
}

void loop_send(struct loop *loop)
{
	const struct egress *bridge = &loop->egress[EGRESS_BRIDGE];
	int64_t began_tai_ns = last_stretch(loop, clock_tai_ns()), now_tai_ns = began_tai_ns;

	withdrawals_count(loop);
	if (clock_in_doubt(loop, began_tai_ns))
		return;
	yield_begin(loop);
	for (;;) {
		uint32_t most = yield_to_due(loop, &now_tai_ns);
		uint32_t count = egress_send(loop, EGRESS_UPLINK, now_tai_ns, most);
		int64_t sent_tai_ns;

		if (ktsn_shaper_pending(bridge->shaper) && count < most)
			count += egress_send(loop, EGRESS_BRIDGE, count ? clock_tai_ns() : now_tai_ns,
					     most - count);
		/* Then the rings are polled again: a backlog of one class must not keep the others
		 * waiting there. */
		if (!count || now_tai_ns - began_tai_ns > SEND_SPELL_NS)
			return;
		sent_tai_ns = clock_tai_ns();
		yield_learn(loop, sent_tai_ns - now_tai_ns, count);
		now_tai_ns = last_stretch(loop, sent_tai_ns);
	}
}
