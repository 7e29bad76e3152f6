/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include "clock_changes.h"
#include "loop_state.h"
#include "notifications.h"
#include "pool.h"
#include "quotas.h"
#include "report.h"
#include "retire.h"
#include "trace_messages.h"

static void flow_count_sent(struct loop_flow *flow, bool late, int64_t departure_error_ns)
{
	counter_add(&flow->counters.sent, 1);
	counter_add(&flow->counters.late, late);
	atomic_store_explicit(&flow->counters.departure_error_ns, departure_error_ns, memory_order_relaxed);
}

void message_sent(struct loop *loop, struct packet *packet, _Atomic uint64_t *lateness,
		  int64_t departed_tai_ns)
{
	struct class_counters *class = &loop->counters.classes[packet->shaper.traffic_class];

	trace_end(loop, packet, lateness, departed_tai_ns);
	departures_add(&loop->departures, packet->flow->number, packet->requested_tai_ns, departed_tai_ns,
		       packet->overrun);
	counter_add(lateness, 1);
	counter_add(&class->late, lateness != &loop->counters.on_time);
	flow_count_sent(packet->flow, lateness != &loop->counters.on_time,
			departed_tai_ns - packet->requested_tai_ns);
	counter_add(&loop->counters.sent, 1);
	counter_add(&loop->counters.sent_bridge, !packet->message && packet->egress == EGRESS_BRIDGE);
	counter_add(&class->sent, 1);
}

void message_dropped(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason)
{
	trace_end(loop, packet, reason, 0);
	counter_add(&packet->flow->counters.dropped, 1);
	counter_add(&loop->counters.classes[packet->shaper.traffic_class].dropped, 1);
	counter_add(reason, 1);
}

void message_report(struct loop *loop, struct packet *message, const _Atomic uint64_t *reason)
{
	message->reported = report_make(loop, message->flow, &message->destination->route, message->slot,
					message->payload_bytes, reason);
}

/* The message has ended, with all of its copies. */
void message_finish(struct loop *loop, struct packet *packet)
{
	struct loop_flow *flow = packet->flow;
	struct loop_ring *ring = flow->ring;

	if (!packet->reported)
		ktsn_ring_release(&ring->consumer, packet->slot);
	space_notify(loop, ring);
	counter_add(&loop->counters.classes[packet->shaper.traffic_class].pending, (uint64_t)-1);
	clocks_packet_done(loop, packet);
	packet_free(loop, packet);
	flow->packets--;
	packet->destination->packets--;
	loop_pending_add(loop, (uint32_t)-1);
	/* The packet is free, and still says where it went. */
	destination_retire_if_done(loop, packet->destination);
	flow_retire_if_done(loop, flow);
	ring_retire_if_done(loop, ring);
}
