/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a message counts as when it ends, once for all of its copies.
 */
#include "message.h"

#include "clock_changes.h"
#include "loop_state.h"
#include "notifications.h"
#include "pool.h"
#include "quotas.h"
#include "report.h"
#include "retire.h"
#include "trace_messages.h"

static struct class_counters *class_counters(struct loop *loop, const struct message *message)
{
	return &loop->counters.classes[message_packet(message)->shaper.traffic_class];
}

/* Of one that was asked for a time. */
static void departure_note(struct loop *loop, struct message *message, int64_t departed_tai_ns)
{
	departures_add(&loop->departures, message->flow->number, message->requested_tai_ns, departed_tai_ns,
		       message->overrun);
	atomic_store_explicit(&message->flow->counters.departure_error_ns,
			      departed_tai_ns - message->requested_tai_ns, memory_order_relaxed);
}

bool message_clock_lost(const struct loop *loop, const struct message *message,
			const _Atomic uint64_t *lateness)
{
	const struct loop_attachment *attachment = message->destination->attachment;

	return loop->held.lost && lateness != &loop->counters.untimed && attachment &&
	       attachment->clock != LOOP_CLOCK_GOOD;
}

/* Of a message that left: neither on time nor untimed. */
static bool is_late(const struct loop *loop, const _Atomic uint64_t *lateness)
{
	return lateness != &loop->counters.on_time && lateness != &loop->counters.untimed;
}

void message_sent(struct loop *loop, struct message *message, _Atomic uint64_t *lateness,
		  int64_t departed_tai_ns)
{
	struct class_counters *class = class_counters(loop, message);
	struct flow_counters *flow = &message->flow->counters;
	bool late = is_late(loop, lateness);

	trace_end(loop, message, lateness, departed_tai_ns);
	counter_add(lateness, 1);
	counter_add(&class->late, late);
	counter_add(&flow->sent, 1);
	counter_add(&flow->late, late);
	if (lateness != &loop->counters.untimed)
		departure_note(loop, message, departed_tai_ns);
	if (message_clock_lost(loop, message, lateness))
		counter_add(&loop->counters.clock_lost, 1);
	counter_add(&loop->counters.sent, 1);
	counter_add(&loop->counters.sent_bridge,
		    !message->replicated && message_packet(message)->egress == EGRESS_BRIDGE);
	counter_add(&class->sent, 1);
}

void message_withdrawn(struct loop *loop, const struct sent_frame *frame)
{
	const uint64_t less = (uint64_t)-1;
	struct class_counters *class = &loop->counters.classes[frame->traffic_class];

	if (frame->copy) {
		counter_add(&loop->counters.copies_sent, less);
		counter_add(&loop->counters.copies_dropped, 1);
	}
	if (!frame->lateness)
		return;
	counter_add(frame->lateness, less);
	counter_add(&loop->counters.sent, less);
	counter_add(&class->sent, less);
	counter_add(&class->dropped, 1);
	if (is_late(loop, frame->lateness))
		counter_add(&class->late, less);
	if (frame->clock_lost)
		counter_add(&loop->counters.clock_lost, less);
	if (frame->flow) {
		counter_add(&frame->flow->counters.sent, less);
		counter_add(&frame->flow->counters.dropped, 1);
		if (is_late(loop, frame->lateness))
			counter_add(&frame->flow->counters.late, less);
	}
	counter_add(&loop->counters.drop_stale, 1);
}

void message_dropped(struct loop *loop, struct message *message, _Atomic uint64_t *reason)
{
	trace_end(loop, message, reason, 0);
	counter_add(&message->flow->counters.dropped, 1);
	counter_add(&class_counters(loop, message)->dropped, 1);
	counter_add(reason, 1);
}

void message_report(struct loop *loop, struct message *message, const _Atomic uint64_t *reason)
{
	message->reported = report_make(loop, message->flow, &message->destination->route, message->slot,
					message->payload_bytes, reason);
}

/* The message has ended, with all of its copies. */
void message_finish(struct loop *loop, struct message *message)
{
	struct loop_flow *flow = message->flow;
	struct loop_ring *ring = flow->ring;

	if (!message->reported)
		ktsn_ring_release(&ring->consumer, message->slot);
	space_notify(loop, ring);
	counter_add(&class_counters(loop, message)->pending, (uint64_t)-1);
	clocks_packet_done(loop, message_packet(message));
	packet_free(loop, message_packet(message));
	flow->packets--;
	message->destination->packets--;
	loop_pending_add(loop, (uint32_t)-1);
	/* The packet is free, and still says where it went. */
	destination_retire_if_done(loop, message->destination);
	flow_retire_if_done(loop, flow);
	ring_retire_if_done(loop, ring);
}
