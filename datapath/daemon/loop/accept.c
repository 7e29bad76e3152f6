/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring -> frame -> shaper. A message is read once, checked, and made into the frame that will leave; from
 * here on nothing of what the application can still write to is looked at again.
 */
#include "loop_state.h"

#include <errno.h>
#include <string.h>

enum {
	/* Rounds must never end, and a ring has fewer slots than there are such numbers. */
	SEQUENCE_BITS = 20,
	SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1,
};
/* What is around the frame: nothing on the way to a pod of this node. */
static const struct ktsn_frame_tunnel *tunnel_of(const struct loop_route *route)
{
	return route->bridge_link_index ? NULL : &route->tunnel;
}

static int packet_build(struct loop *loop, struct packet *packet, const struct loop_route *route)
{
	struct ktsn_port_frame *frame = &packet->frame;
	struct ktsn_frame_path path = route->path;
	struct ktsn_frame_tunnel tunnel = route->tunnel;
	const struct ktsn_frame_tunnel *around = tunnel_of(route) ? &tunnel : NULL;
	int headers_bytes;

	path.id = packet->ipv4_id;
	tunnel.pcp = loop->classes.pcp[packet->shaper.traffic_class];
	headers_bytes =
		ktsn_frame_build(frame->data, frame->capacity_bytes, &path, around, packet->payload_bytes);
	if (headers_bytes < 0)
		return headers_bytes;
	frame->bytes = (uint32_t)headers_bytes + packet->payload_bytes;
	packet->shaper.wire_bytes =
		(uint32_t)ktsn_frame_wire_bytes(ktsn_frame_link_bytes(frame->bytes, around));
	packet->shaper.sdu_bytes = (uint32_t)ktsn_frame_sdu_bytes(frame->bytes, around);
	packet->outlet = around ? OUTLET_UPLINK : OUTLET_BRIDGE;
	frame->link_index = route->bridge_link_index;
	return 0;
}

/* Why the shaper did not take a packet. */
static _Atomic uint64_t *refusal_counter(struct loop *loop, int error)
{
	return error == -EMSGSIZE ? &loop->counters.drop_max_sdu : &loop->counters.drop_txtime;
}

void frame_shape(struct loop *loop, struct packet *packet, const struct loop_route *route)
{
	int error;

	if (packet_build(loop, packet, route)) {
		packet_drop(loop, packet, &loop->counters.drop_invalid);
		return;
	}
	error = ktsn_shaper_enqueue_handed(loop->outlets[packet->outlet].shaper, quota_lane(packet),
					   &packet->shaper, packet->handed_tai_ns, loop->round_tai_ns);
	if (error)
		packet_drop(loop, packet, refusal_counter(loop, error));
}

void packet_shape(struct loop *loop, struct packet *packet, const struct loop_route *route)
{
	if (packet->destination->copies)
		copies_begin(loop, packet);
	else
		frame_shape(loop, packet, route);
}

static void packet_route(struct loop *loop, struct packet *packet, struct loop_destination *destination)
{
	/* None overtakes those that still wait. */
	if (destination->pending_first) {
		pending_add(loop, destination, packet);
		return;
	}
	switch (destination->route.state) {
	case DESTINATION_RESOLVED:
		packet_shape(loop, packet, &destination->route);
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

static struct loop_destination *destination_of(struct loop *loop, const struct loop_ring *ring,
					       const struct ktsn_ring_taken *taken)
{
	struct loop_destination *destination;

	if (taken->destination >= LOOP_DESTINATIONS_PER_RING || taken->flow >= LOOP_FLOWS_PER_RING)
		return NULL;
	destination = ring->destinations[taken->destination];
	/* A destination carries a source address: only its own flow may use it. */
	if (!destination || destination->flow != ring->flows[taken->flow])
		destination = destination_announced(loop, ring, taken->flow, taken->destination);
	if (!destination)
		return NULL;
	return taken->payload_bytes <= destination->route.payload_max_bytes ? destination : NULL;
}

/* The socket that a slot names, if the process has one of that number. */
static struct loop_flow *flow_named(const struct loop_ring *ring, const struct ktsn_ring_taken *taken)
{
	return taken->flow < LOOP_FLOWS_PER_RING ? ring->flows[taken->flow] : NULL;
}

void message_reject(struct loop *loop, struct loop_ring *ring, const struct ktsn_ring_taken *taken,
		    const struct loop_destination *destination, _Atomic uint64_t *reason)
{
	struct loop_flow *flow = flow_named(ring, taken);

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
	space_tell(loop, ring);
	ring_retire_if_done(loop, ring);
}

/* A ring that was handed back has slots of any size, and pods of one node may have links of any MTU: what passes both
 * may still be longer than a frame of the port. */
static bool frame_holds(const struct packet *packet, const struct loop_destination *destination,
			uint32_t payload_bytes)
{
	size_t headers_bytes =
		ktsn_frame_header_bytes(&destination->route.path, tunnel_of(&destination->route));

	return headers_bytes + payload_bytes <= packet->frame.capacity_bytes;
}

static void packet_fill(struct loop *loop, struct packet *packet, const struct loop_ring *ring,
			const struct ktsn_ring_taken *taken, struct loop_destination *destination)
{
	size_t headers_bytes =
		ktsn_frame_header_bytes(&destination->route.path, tunnel_of(&destination->route));

	memcpy(packet->frame.data + headers_bytes, ktsn_ring_taken_payload(&ring->consumer, taken->slot),
	       taken->payload_bytes);
	packet->slot = taken->slot;
	packet->payload_bytes = taken->payload_bytes;
	packet->flow = destination->flow;
	packet->destination = destination;
	packet->ipv4_id = destination->route.path.fragmentable ? destination->flow->ipv4_id++ : 0;
	packet->shaper.traffic_class = loop->classes.of_priority[destination->priority];
	packet->shaper.deadline = packet->flow->deadline;
	packet->shaper.txtime_tai_ns = packet->requested_tai_ns;
	/* Messages of one round may be taken in any order; their numbers say which came first. */
	packet->shaper.order = loop->rounds << SEQUENCE_BITS | (taken->sequence & SEQUENCE_MASK);
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

static bool beyond_horizon(const struct loop_ring *ring, int64_t txtime_tai_ns, int64_t now_tai_ns)
{
	return txtime_tai_ns - now_tai_ns >
	       atomic_load_explicit(&ring->quota->horizon_ns, memory_order_relaxed);
}

uint32_t destination_frames(const struct loop_destination *destination)
{
	return destination->copies && destination->copies->count ? destination->copies->count : 1;
}

/* Either all copies have room or the message waits, at the front of its ring. If it is more than there can ever be room for,
 * the copies that are too many are dropped. */
static bool room_for(const struct loop *loop, struct quota *quota, const struct loop_destination *destination)
{
	uint32_t frames = destination_frames(destination);

	quota->wanted = frames > 1 && frames > quota_room(loop, quota) && loop_pending(loop) ? frames : 0;
	return quota->wanted == 0;
}

/*
 * When the message was handed over, by which the strategies etf judge, as the kernel does in the call: that ktsnd woke up
 * late is not the application's fault. It is the application's word, and believed only where it says earlier than
 * now. What a lie can win is that a message that is late already is taken, and dropped for being late.
 */
static int64_t handed_over(const struct loop *loop, const struct ktsn_ring_taken *taken)
{
	bool said = taken->called_tai_ns > 0 && taken->called_tai_ns < loop->round_tai_ns;

	return said ? taken->called_tai_ns : loop->round_tai_ns;
}

int message_accept(struct loop *loop, struct loop_ring *ring, const struct ktsn_ring_taken *taken)
{
	struct loop_destination *destination = destination_of(loop, ring, taken);
	struct packet *packet;
	int64_t txtime_tai_ns;

	if (!destination ||
	    !txtime_convert(taken->txtime_ns, loop->offsets.to_tai_ns[destination->flow->clock],
			    &txtime_tai_ns)) {
		message_reject(loop, ring, taken, destination, &loop->counters.drop_invalid);
		return 0;
	}
	if (beyond_horizon(ring, txtime_tai_ns, loop->round_tai_ns)) {
		message_reject(loop, ring, taken, destination, &loop->counters.drop_horizon);
		return 0;
	}
	if (!room_for(loop, ring->quota, destination))
		return -EAGAIN;
	packet = packet_alloc(loop);
	if (!packet)
		return -ENOBUFS;
	if (!frame_holds(packet, destination, taken->payload_bytes)) {
		ktsn_port_frame_free(loop->config.port, &packet->frame);
		packet_free(loop, packet);
		message_reject(loop, ring, taken, destination, &loop->counters.drop_invalid);
		return 0;
	}
	packet->requested_tai_ns = txtime_tai_ns;
	packet->handed_tai_ns = handed_over(loop, taken);
	packet_fill(loop, packet, ring, taken, destination);
	/* Otherwise it came in time for all we know, and if it leaves late that is ktsnd's doing. */
	if (txtime_tai_ns < loop->asleep_tai_ns && txtime_tai_ns < loop->round_tai_ns)
		packet->late_reason = LATE_TAKEN;
	clocks_packet_held(loop, packet);
	packet->flow->packets++;
	destination->packets++;
	quota_pending_add(loop, ring->quota, 1);
	counter_add(&packet->flow->counters.taken, 1);
	loop_pending_add(loop, 1);
	counter_add(&loop->counters.classes[packet->shaper.traffic_class].pending, 1);
	counter_add(&loop->counters.taken, 1);
	trace_begin(packet, taken);
	watch_message(loop, packet->flow, txtime_tai_ns);
	packet_route(loop, packet, destination);
	return 0;
}
