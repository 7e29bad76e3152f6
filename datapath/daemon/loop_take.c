/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring -> frame -> shaper. A message is read once, checked, and made into the frame that will leave; from
 * here on nothing of what the application can still write to is looked at again.
 */
#include "loop_state.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	/* Rounds must never end, and a ring has fewer slots than there are such numbers. */
	SEQUENCE_BITS = 20,
	SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1,
	/* So many messages are taken, or rings looked into, before the clock is looked at... */
	TAKE_AT_ONCE = 8,
	/* ...and no more when a departure is nearer than that takes, */
	TAKE_SPARE_NS = 8000,
	/* or when one is due and taking has gone on for so long, */
	TAKE_LONGEST_NS = 100000,
	/* or when another pod's came due not longer ago: what has waited for longer waits for something else. */
	TAKE_FRESH_NS = 50000,
	/* So many messages of a pod are taken before another has its turn. */
	TAKE_TURN = 32,
};

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
	return packet;
}

void packet_free(struct loop *loop, struct packet *packet)
{
	packet->next = loop->packets_free;
	loop->packets_free = packet;
	loop->packets_free_count++;
	loop->memory_short = false;
}

/* Slots are the application's again: wakes producers that sleep for one, the one system call between departures, and
 * only when an application's ring is full; and has those woken that wait in poll. */
static void space_tell(struct loop *loop, struct loop_ring *ring)
{
	if (ktsn_ring_space_wake_due(&ring->consumer))
		syscall(SYS_futex, ktsn_ring_consumer_space_futex(&ring->consumer), FUTEX_WAKE, INT_MAX, NULL,
			NULL, 0);
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
	share_pending_add(loop, packet->flow->ring->share, (uint32_t)-1);
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

/* What is around the frame: nothing on the way to a pod of this node. */
static const struct ktsn_frame_tunnel *tunnel_of(const struct loop_route *route)
{
	return route->bridge_link_index ? NULL : &route->tunnel;
}

static int packet_build(struct loop *loop, struct packet *packet, const struct loop_route *route)
{
	struct ktsn_port_frame *frame = &packet->frame;
	struct ktsn_frame_tunnel tunnel = route->tunnel;
	const struct ktsn_frame_tunnel *around = tunnel_of(route) ? &tunnel : NULL;
	int headers_bytes;

	tunnel.pcp = loop->classes.pcp[packet->shaper.traffic_class];
	headers_bytes = ktsn_frame_build(frame->data, frame->capacity_bytes, &route->path, around,
					 packet->payload_bytes);
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
	error = ktsn_shaper_enqueue_handed(loop->outlets[packet->outlet].shaper, share_lane(packet),
					   &packet->shaper, packet->handed_tai_ns, loop->round_tai_ns);
	if (error)
		packet_drop(loop, packet, refusal_counter(loop, error));
}

void packet_shape(struct loop *loop, struct packet *packet, const struct loop_route *route)
{
	if (packet->destination->copies)
		copies_shape(loop, packet);
	else
		frame_shape(loop, packet, route);
}

static void park(struct loop_destination *destination, struct packet *packet)
{
	packet->next = NULL;
	packet->late_reason = LATE_UNRESOLVED;
	if (destination->parked_last)
		destination->parked_last->next = packet;
	else
		destination->parked_first = packet;
	destination->parked_last = packet;
}

static void packet_route(struct loop *loop, struct packet *packet, struct loop_destination *destination)
{
	switch (destination->route.state) {
	case DESTINATION_RESOLVED:
		packet_shape(loop, packet, &destination->route);
		break;
	case DESTINATION_RESOLVING:
		park(destination, packet);
		break;
	case DESTINATION_UNREACHABLE:
		packet_drop(loop, packet, &loop->counters.drop_unresolved);
		break;
	case DESTINATION_CLOSED:
		packet_drop(loop, packet, &loop->counters.drop_closed);
		break;
	}
}

static struct loop_destination *destination_of(const struct loop *loop, const struct loop_ring *ring,
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

/* `destination` is NULL where it names none that it may use. */
static void reject(struct loop *loop, struct loop_ring *ring, const struct ktsn_ring_taken *taken,
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
	       atomic_load_explicit(&ring->share->horizon_ns, memory_order_relaxed);
}

uint32_t destination_frames(const struct loop_destination *destination)
{
	return destination->copies && destination->copies->count ? destination->copies->count : 1;
}

/* Either all copies are made or the message waits, at the front of its ring. If it is more than there can ever be room for,
 * the copies that are too many are dropped. */
static bool room_for(const struct loop *loop, struct share *share, const struct loop_destination *destination)
{
	uint32_t frames = destination_frames(destination);

	share->wanted = frames > 1 && frames > share_room(loop, share) && loop_pending(loop) ? frames : 0;
	return share->wanted == 0;
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

/* 0; -EAGAIN when its pod has no room for it; -ENOBUFS when there is no memory. */
static int message_accept(struct loop *loop, struct loop_ring *ring, const struct ktsn_ring_taken *taken)
{
	struct loop_destination *destination = destination_of(loop, ring, taken);
	struct packet *packet;
	int64_t txtime_tai_ns;

	if (!destination ||
	    !txtime_convert(taken->txtime_ns, loop->offsets.to_tai_ns[destination->flow->clock],
			    &txtime_tai_ns)) {
		reject(loop, ring, taken, destination, &loop->counters.drop_invalid);
		return 0;
	}
	if (beyond_horizon(ring, txtime_tai_ns, loop->round_tai_ns)) {
		reject(loop, ring, taken, destination, &loop->counters.drop_horizon);
		return 0;
	}
	if (!room_for(loop, ring->share, destination))
		return -EAGAIN;
	packet = packet_alloc(loop);
	if (!packet)
		return -ENOBUFS;
	if (!frame_holds(packet, destination, taken->payload_bytes)) {
		ktsn_port_frame_free(loop->config.port, &packet->frame);
		packet_free(loop, packet);
		reject(loop, ring, taken, destination, &loop->counters.drop_invalid);
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
	share_pending_add(loop, ring->share, 1);
	counter_add(&packet->flow->counters.taken, 1);
	loop_pending_add(loop, 1);
	counter_add(&loop->counters.classes[packet->shaper.traffic_class].pending, 1);
	counter_add(&loop->counters.taken, 1);
	trace_begin(packet, taken);
	watch_message(loop, packet->flow, txtime_tai_ns);
	packet_route(loop, packet, destination);
	return 0;
}

/* Whether something of another pod is due, or nearly, and cannot be waiting for anything else. */
static bool others_call(const struct loop *loop, const struct share *share)
{
	for (int i = 0; i < OUTLETS; i++) {
		int64_t due_tai_ns = ktsn_shaper_due_beside(loop->outlets[i].shaper, share->lanes[i]);

		if (due_tai_ns < loop->round_tai_ns + TAKE_SPARE_NS &&
		    due_tai_ns > loop->round_tai_ns - TAKE_FRESH_NS)
			return true;
	}
	return false;
}

/* Whether so little is left until a departure that taking more of a pod would delay it. One of the same pod that is
 * late already waits a little more: an earlier message may still be in a ring. */
static bool departure_calls(struct loop *loop, const struct share *share)
{
	int64_t left_ns;

	loop->round_tai_ns = clock_tai_ns();
	left_ns = loop_departure_next(loop, loop->round_tai_ns) - loop->round_tai_ns;
	if (left_ns > 0)
		return left_ns < TAKE_SPARE_NS;
	return loop->round_tai_ns - loop->take_began_tai_ns > TAKE_LONGEST_NS || others_call(loop, share);
}

enum drained { DRAINED, DRAINED_IN_PART, DRAINED_NO_MEMORY };

/* Takes all that is ready, or as many as there is time and memory for, and not more than `most`. */
static enum drained ring_drain(struct loop *loop, struct loop_ring *ring, uint32_t most)
{
	struct ktsn_ring_taken taken;
	uint32_t count = 0;
	int result, err;

	(void)loop_offsets(loop);
	clocks_watch(loop);
	if (share_holds(loop, ring->share, loop->round_tai_ns))
		return DRAINED_IN_PART;
	while ((result = ktsn_ring_take(&ring->consumer, &taken)) != 0) {
		/* What is claimed to be a message and is none counts as one: it takes as long. */
		if (result == -EBADMSG) {
			reject(loop, ring, &taken, NULL, &loop->counters.drop_invalid);
		} else if (result > 0 && (err = message_accept(loop, ring, &taken))) {
			ktsn_ring_untake(&ring->consumer, taken.slot);
			return err == -ENOBUFS ? DRAINED_NO_MEMORY : DRAINED_IN_PART;
		}
		/* Neither a flood nor an application that refills all the time must hold up the others. */
		count++;
		loop->take_count++;
		if (!ktsn_ring_ready(&ring->consumer))
			return DRAINED;
		if (count >= most ||
		    (loop->take_count % TAKE_AT_ONCE == 0 && departure_calls(loop, ring->share)) ||
		    share_holds(loop, ring->share, loop->round_tai_ns))
			return DRAINED_IN_PART;
	}
	return DRAINED;
}

/* What was left in it may have been taken since, or was a lie that its application took back. */
static enum drained ring_look(struct loop *loop, struct loop_ring *ring, uint32_t most)
{
	enum drained drained;

	counter_add(&loop->looks, 1);
	loop->take_count++;
	if (!ktsn_ring_ready(&ring->consumer))
		return DRAINED;
	loop->round_tai_ns = clock_tai_ns();
	drained = ring_drain(loop, ring, most);
	if (drained == DRAINED_NO_MEMORY) {
		counter_add(&loop->counters.frame_pool_empty, 1);
		loop->memory_short = true;
	}
	return drained;
}

/* Whether messages were left in it. It may be gone after this. */
static bool ring_take(struct loop *loop, struct loop_ring *ring, uint32_t most)
{
	enum drained drained;

	if (!ring->opened || ring->closed)
		return false;
	ring->busy++;
	drained = ring_look(loop, ring, most);
	watch_looked(loop, ring, drained != DRAINED);
	ring->busy--;
	if (drained == DRAINED && ring->closings && !ring->busy)
		closings_end(loop, ring);
	if (drained == DRAINED && ring->closing && !ring->busy)
		ring_end(loop, ring);
	else
		ring_retire_if_done(loop, ring);
	return drained != DRAINED;
}

void loop_take_ring(struct loop *loop, struct loop_ring *ring)
{
	(void)ring_take(loop, ring, ring->consumer.slot_count);
}

/* Since the round before. */
static void clock_set_back(struct loop *loop)
{
	for (int i = 0; i < OUTLETS; i++) {
		ktsn_shaper_clock_set_back(loop->outlets[i].shaper);
		loop->outlets[i].retry_tai_ns = 0;
	}
	shares_clock_set_back(loop);
	loop->doorbells_polled_tai_ns = 0;
	watch_clock_set_back(loop);
}

/* A pod has its turn. Whether that led anywhere: messages were taken, or there is a ring less to look into. */
static bool turn_take(struct loop *loop)
{
	struct loop_ring *ring = watch_turn(loop);
	uint32_t count;
	bool left;

	/* None of its rings may be taken from: one look tells that of all. */
	if (ktsn_ring_ready(&ring->consumer) && share_shut(loop, ring->share, loop->round_tai_ns)) {
		(void)share_holds(loop, ring->share, loop->round_tai_ns);
		return false;
	}
	count = loop->take_count;
	left = ring_take(loop, ring, loop->watched_shares > 1 ? TAKE_TURN : ring->consumer.slot_count);
	/* The look itself was one. */
	return loop->take_count - count > 1 || !left;
}

/* Whether a departure leaves time for another turn of that pod. */
static bool take_may_go_on(struct loop *loop)
{
	return loop->take_count < TAKE_AT_ONCE || !departure_calls(loop, watch_share(loop));
}

void loop_take(struct loop *loop)
{
	uint32_t in_vain = 0;

	loop->rounds++;
	loop->take_began_tai_ns = loop->round_tai_ns = clock_tai_ns();
	loop->take_count = 0;
	if (loop->take_began_tai_ns < loop->last_tai_ns)
		clock_set_back(loop);
	loop->last_tai_ns = loop->take_began_tai_ns;
	clocks_watch(loop);
	shares_unmute(loop, loop->take_began_tai_ns);
	parked_go_on(loop);
	watch_due(loop, loop->take_began_tai_ns + loop->lead_ns);
	/* Those for which there is no time have their turn in the next round. */
	while (loop->watched && in_vain < loop->watched_shares && loop->take_count < loop->config.packets &&
	       take_may_go_on(loop))
		in_vain = turn_take(loop) ? 0 : in_vain + 1;
	loop->asleep_tai_ns = loop->take_began_tai_ns;
}
