/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring -> frame -> shaper. A message is read once, checked, and made into the frame that will leave. From
 * here on the loop uses nothing that the application can still write to.
 */
#include "accept.h"

#include "admission.h"
#include "clock_changes.h"
#include "finish.h"
#include "held.h"
#include "lookup.h"
#include "loop_state.h"
#include "notifications.h"
#include "pending.h"
#include "pool.h"
#include "quotas.h"
#include "replication.h"
#include "report.h"
#include "retire.h"
#include "shape.h"
#include "trace_messages.h"
#include "watch.h"

#include <errno.h>
#include <string.h>

void message_reject(struct loop *loop, struct loop_ring *ring, const struct ktsn_ring_taken *taken,
		    const struct loop_destination *destination, _Atomic uint64_t *reason)
{
	struct loop_flow *flow = flow_find(ring, taken);

	trace_rejected(loop, flow, taken, reason);
	if (flow) {
		counter_add(&flow->counters.taken, 1);
		counter_add(&flow->counters.dropped, 1);
	}
	counter_add(&loop->counters.taken, 1);
	counter_add(reason, 1);
	if (!destination || !report_make(loop, destination->flow, &destination->route, taken->slot,
					 taken->payload_bytes, reason))
		ktsn_ring_release(&ring->consumer, taken->slot);
	space_notify(loop, ring);
	ring_retire_if_done(loop, ring);
}

static void packet_route(struct loop *loop, struct packet *packet, struct loop_destination *destination)
{
	/* It takes its place among those that still wait. */
	if (destination->pending) {
		pending_add(loop, destination, packet);
		return;
	}
	switch (destination->route.state) {
	case DESTINATION_RESOLVED:
		message_shape(loop, packet, &destination->route);
		break;
	case DESTINATION_RESOLVING:
		pending_add(loop, destination, packet);
		break;
	case DESTINATION_UNREACHABLE:
		packet_drop(loop, packet, &loop->counters.drop_unresolved);
		break;
	case DESTINATION_CLOSED:
		packet_drop(loop, packet, &loop->counters.drop_closed);
		break;
	}
}

/* A ring that was handed back has slots of any size, and pods of one node may have links of any MTU: what
 * passes both may still be longer than a frame of the port. */
static bool frame_holds(const struct packet *packet, const struct loop_destination *destination,
			uint32_t payload_bytes)
{
	size_t headers_bytes =
		ktsn_frame_header_bytes(&destination->route.path, route_tunnel(&destination->route));

	return headers_bytes + payload_bytes <= packet->frame.capacity_bytes;
}

/*
 * When the message was handed over, by which the strategies etf judge, as the kernel does in the call: that
 * ktsnd woke up late is not the application's fault. It is the application's word, and believed only where it
 * says earlier than now. What a lie can win is that a message that is late already is taken, and dropped for
 * being late.
 */
static int64_t handover_time(const struct loop *loop, const struct ktsn_ring_taken *taken)
{
	bool believed = taken->called_tai_ns > 0 && taken->called_tai_ns < loop->round.now_tai_ns;

	return believed ? taken->called_tai_ns : loop->round.now_tai_ns;
}

/* `payload` is the copy. */
static uint8_t priority_of(const struct loop_destination *destination, const struct ktsn_ring_taken *taken,
			   const uint8_t *payload)
{
	if (!destination->flow->frames)
		return destination->priority;
	return admission_priority(destination, taken->ethertype_be, taken->priority, payload,
				  taken->payload_bytes);
}

static void message_fill(struct loop *loop, struct packet *packet, const struct loop_ring *ring,
			 const struct ktsn_ring_taken *taken, struct loop_destination *destination,
			 int64_t txtime_tai_ns)
{
	struct message *message = &packet->own;
	uint8_t *payload;

	packet->message = message;
	packet->payload_at = (uint16_t)ktsn_frame_header_bytes(&destination->route.path,
							       route_tunnel(&destination->route));
	payload = packet_payload(packet);
	memcpy(payload, ktsn_ring_taken_payload(&ring->consumer, taken->slot), taken->payload_bytes);
	message->slot = taken->slot;
	message->payload_bytes = taken->payload_bytes;
	message->flow = destination->flow;
	message->destination = destination;
	message->requested_tai_ns = txtime_tai_ns;
	message->handed_tai_ns = handover_time(loop, taken);
	message->ethertype_be =
		destination->flow->frames ? taken->ethertype_be : destination->route.path.ethertype_be;
	message->priority = priority_of(destination, taken, payload);
	message->ipv4_id = destination->route.path.fragmentable ? destination->flow->ipv4_id++ : 0;
	message->reported = message->overrun = message->replicated = false;
	packet->shaper.traffic_class = loop->shaping.classes.of_priority[message->priority];
	packet->shaper.deadline = message->flow->deadline;
	packet->shaper.untimed = ring->untimed;
	packet->shaper.txtime_tai_ns = txtime_tai_ns;
	/* Those of a ring are taken in the order in which they were handed over. */
	packet->shaper.order = ++loop->round.messages;
	/* Otherwise it came in time for all we know, and if it leaves late that is ktsnd's doing. */
	if (txtime_tai_ns < loop->wait.asleep_tai_ns && txtime_tai_ns < loop->round.now_tai_ns)
		packet->late_reason = LATE_TAKEN;
}

/* On CLOCK_TAI. A time before 1970 is as late as one can be; false for one beyond all that is computed from
 * it (periods, thresholds): either comes from a mistake, or from someone who looks for one. */
static bool txtime_convert(int64_t txtime_ns, int64_t to_tai_ns, int64_t *txtime_tai_ns)
{
	if (__builtin_add_overflow(txtime_ns, to_tai_ns, txtime_tai_ns) ||
	    *txtime_tai_ns > KTSN_TXTIME_MAX_NS)
		return false;
	if (*txtime_tai_ns < 0)
		*txtime_tai_ns = 0;
	return true;
}

/* Either all copies have room or the message waits, at the front of its ring. If it is more than there can
 * ever be room for, the copies that are too many are dropped. */
static bool room_for(const struct loop *loop, struct quota *quota, const struct loop_destination *destination)
{
	uint32_t frames = destination_frames(destination);

	quota->wanted =
		frames > 1 && frames > quota_room(loop, quota) && loop_pending_messages(loop) ? frames : 0;
	return quota->wanted == 0;
}

/* What waited in a ring while no ktsnd served it: in the time of a network that is for ever. When it was
 * handed over is the application's word, which concerns only itself. */
static bool is_stale(const struct loop *loop, const struct loop_ring *ring,
		     const struct ktsn_ring_taken *taken)
{
	int64_t age_ns;

	return taken->recovered &&
	       (__builtin_sub_overflow(ring->recovered_tai_ns, taken->txtime_ns, &age_ns) ||
		age_ns > loop->config.stale_after_ns);
}

/* Of an untimed message, whose time is now. */
static _Atomic uint64_t *untimed_rejection_counter(struct loop *loop, const struct loop_ring *ring,
						   const struct ktsn_ring_taken *taken,
						   int64_t *txtime_tai_ns)
{
	*txtime_tai_ns = loop->round.now_tai_ns;
	return is_stale(loop, ring, taken) ? &loop->counters.drop_stale : NULL;
}

/* Why the message is rejected; NULL: it is not, and *txtime_tai_ns is its time. */
static _Atomic uint64_t *rejection_counter(struct loop *loop, const struct loop_ring *ring,
					   const struct ktsn_ring_taken *taken,
					   const struct loop_destination *destination, int64_t *txtime_tai_ns)
{
	if (destination && ring->untimed)
		return untimed_rejection_counter(loop, ring, taken, txtime_tai_ns);
	if (!destination ||
	    !txtime_convert(taken->txtime_ns, loop->clocks.offsets.to_tai_ns[destination->flow->clock],
			    txtime_tai_ns))
		return &loop->counters.drop_invalid;
	if (*txtime_tai_ns - loop->round.now_tai_ns >
	    atomic_load_explicit(&ring->quota->horizon_ns, memory_order_relaxed))
		return &loop->counters.drop_horizon;
	return held_any(loop) && held_refuses(ring, destination, taken) ? &loop->counters.drop_clock : NULL;
}

/* The packet has its message: from here on it counts as taken. */
static void message_count_taken(struct loop *loop, struct packet *packet)
{
	struct message *message = packet->message;

	clocks_packet_held(loop, packet);
	message->flow->packets++;
	message->destination->packets++;
	quota_pending_add(loop, message->flow->ring->quota, 1);
	counter_add(&message->flow->counters.taken, 1);
	loop_pending_add(loop, 1);
	counter_add(&loop->counters.classes[packet->shaper.traffic_class].pending, 1);
	counter_add(&loop->counters.taken, 1);
}

/* What an application writes itself of a frame is looked at where it can no longer change it. */
static bool message_admitted(const struct packet *packet)
{
	const struct message *message = packet->message;

	return message->destination->route.path.kind != KTSN_FRAME_ETHERNET ||
	       admission_allows(message->destination, message->ethertype_be, message->priority,
				packet_payload(packet), message->payload_bytes);
}

int message_accept(struct loop *loop, struct loop_ring *ring, const struct ktsn_ring_taken *taken)
{
	struct loop_destination *destination = destination_find(loop, ring, taken);
	struct packet *packet;
	int64_t txtime_tai_ns = 0;
	_Atomic uint64_t *rejection = rejection_counter(loop, ring, taken, destination, &txtime_tai_ns);

	if (rejection) {
		message_reject(loop, ring, taken, destination, rejection);
		return 0;
	}
	if (!room_for(loop, ring->quota, destination))
		return -EAGAIN;
	packet = packet_alloc(loop);
	if (!packet)
		return -ENOBUFS;
	if (!frame_holds(packet, destination, taken->payload_bytes)) {
		/* NOLINTNEXTLINE(clang-analyzer-core.*): a counter's address is never NULL */
		ktsn_port_frame_free(loop->config.port, &packet->frame);
		packet_free(loop, packet);
		message_reject(loop, ring, taken, destination, &loop->counters.drop_invalid);
		return 0;
	}
	if (held_any(loop))
		held_refusal_pass(ring, destination);
	message_fill(loop, packet, ring, taken, destination, txtime_tai_ns);
	message_count_taken(loop, packet);
	trace_begin(packet->message, taken);
	if (!ring->untimed)
		watch_message(loop, packet->message->flow, txtime_tai_ns);
	if (message_admitted(packet))
		packet_route(loop, packet, destination);
	else
		packet_drop(loop, packet, &loop->counters.drop_source);
	return 0;
}
