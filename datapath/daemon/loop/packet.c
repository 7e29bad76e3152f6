/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packet from when it is taken from the pool until it is back there: how it ends, what is counted then, and who is told.
 */
#include "loop_state.h"

struct packet *packet_alloc(struct loop *loop)
{
	struct packet *packet = loop->packets_free;

	if (!packet)
		return NULL;
	if (ktsn_port_frame_alloc(loop->config.port, &packet->frame))
		return NULL;
	loop->packets_free = packet->next;
	loop->packets_free_count--;
	packet->message = NULL;
	packet->late_reason = LATE_WAKEUP;
	packet->refused_tai_ns = 0;
	packet->reported = false;
	packet->overrun = false;
	return packet;
}

void packet_free(struct loop *loop, struct packet *packet)
{
	packet->next = loop->packets_free;
	loop->packets_free = packet;
	loop->packets_free_count++;
	loop->memory_short = false;
}

void space_tell(struct loop *loop, struct loop_ring *ring)
{
	if (ktsn_ring_space_polled(&ring->consumer))
		space_announce(loop, ring);
}

/* The message has ended, with all of its copies. */
static void message_finish(struct loop *loop, struct packet *packet)
{
	struct loop_flow *flow = packet->flow;
	struct loop_ring *ring = flow->ring;

	if (!packet->reported)
		ktsn_ring_release(&ring->consumer, packet->slot);
	space_tell(loop, ring);
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

void packet_finish(struct loop *loop, struct packet *packet, bool frame_sent)
{
	if (!frame_sent)
		ktsn_port_frame_free(loop->config.port, &packet->frame);
	quota_pending_add(loop, packet->flow->ring->quota, (uint32_t)-1);
	if (packet->message)
		packet = copy_finish(loop, packet);
	if (packet)
		message_finish(loop, packet);
}

void packet_drop_count(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason)
{
	if (packet->message)
		copy_dropped(loop, packet, reason);
	else
		message_dropped(loop, packet, reason);
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

void packet_drop(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason)
{
	packet_drop_count(loop, packet, reason);
	if (!packet->message)
		message_report(loop, packet, reason);
	packet_finish(loop, packet, false);
}
