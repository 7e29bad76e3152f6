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

static bool clock_is_lost(const struct message *message)
{
	const struct loop_attachment *attachment = message->destination->attachment;

	return attachment && attachment->clock != LOOP_CLOCK_GOOD;
}

void message_sent(struct loop *loop, struct message *message, _Atomic uint64_t *lateness,
		  int64_t departed_tai_ns)
{
	struct class_counters *class = class_counters(loop, message);
	struct flow_counters *flow = &message->flow->counters;
	bool untimed = lateness == &loop->counters.untimed;
	bool late = lateness != &loop->counters.on_time && !untimed;

	trace_end(loop, message, lateness, departed_tai_ns);
	counter_add(lateness, 1);
	counter_add(&class->late, late);
	counter_add(&flow->sent, 1);
	counter_add(&flow->late, late);
	if (!untimed) {
		departure_note(loop, message, departed_tai_ns);
		if (loop->held.lost && clock_is_lost(message))
			counter_add(&loop->counters.clock_lost, 1);
	}
	counter_add(&loop->counters.sent, 1);
	counter_add(&loop->counters.sent_bridge,
		    !message->replicated && message_packet(message)->egress == EGRESS_BRIDGE);
	counter_add(&class->sent, 1);
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
