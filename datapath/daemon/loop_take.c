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

static struct packet *packet_alloc(struct loop *loop)
{
	struct packet *packet = loop->packets_free;

	if (!packet)
		return NULL;
	if (ktsn_port_frame_alloc(loop->port, &packet->frame))
		return NULL;
	loop->packets_free = packet->next;
	packet->late_reason = LATE_WAKEUP;
	packet->refused_tai_ns = 0;
	return packet;
}

static void packet_free(struct loop *loop, struct packet *packet)
{
	packet->next = loop->packets_free;
	loop->packets_free = packet;
	loop->memory_short = false;
}

/* Gives a slot back, and wakes producers that wait for one: the one system call between departures, and
 * only when an application's ring is full. */
static void slot_release(struct loop_ring *ring, uint32_t slot)
{
	ktsn_ring_release(&ring->consumer, slot);
	if (ktsn_ring_space_wake_due(&ring->consumer))
		syscall(SYS_futex, ktsn_ring_consumer_space_futex(&ring->consumer), FUTEX_WAKE, INT_MAX, NULL,
			NULL, 0);
}

void packet_finish(struct loop *loop, struct packet *packet, bool frame_sent)
{
	struct loop_flow *flow = packet->flow;
	struct loop_ring *ring = flow->ring;

	if (!frame_sent)
		ktsn_port_frame_free(loop->port, &packet->frame);
	slot_release(ring, packet->slot);
	packet_free(loop, packet);
	flow->packets--;
	atomic_fetch_sub_explicit(&loop->pending, 1, memory_order_relaxed);
	flow_retire_if_done(loop, flow);
	ring_retire_if_done(loop, ring);
}

void packet_drop(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason)
{
	counter_add(reason, 1);
	packet_finish(loop, packet, false);
}

void packet_shape(struct loop *loop, struct packet *packet, const struct loop_route *route)
{
	struct ktsn_port_frame *frame = &packet->frame;
	int headers_bytes = ktsn_frame_build(frame->data, frame->capacity_bytes, &route->path, &route->tunnel,
					     packet->payload_bytes);

	if (headers_bytes < 0) {
		packet_drop(loop, packet, &loop->counters.drop_invalid);
		return;
	}
	frame->bytes = (uint32_t)headers_bytes + packet->payload_bytes;
	packet->shaper.wire_bytes = (uint32_t)ktsn_frame_wire_bytes(frame->bytes);
	/* There is a place for every packet of the pool. */
	(void)ktsn_shaper_enqueue(loop->shaper, &packet->shaper, packet->requested_tai_ns);
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

static void reject(struct loop *loop, struct loop_ring *ring, uint32_t slot)
{
	counter_add(&loop->counters.taken, 1);
	counter_add(&loop->counters.drop_invalid, 1);
	slot_release(ring, slot);
	ring_retire_if_done(loop, ring);
}

static void packet_fill(struct loop *loop, struct packet *packet, const struct loop_ring *ring,
			const struct ktsn_ring_taken *taken, const struct loop_destination *destination)
{
	size_t headers_bytes = ktsn_frame_header_bytes(&destination->route.tunnel);

	memcpy(packet->frame.data + headers_bytes, ktsn_ring_taken_payload(&ring->consumer, taken->slot),
	       taken->payload_bytes);
	packet->slot = taken->slot;
	packet->payload_bytes = taken->payload_bytes;
	packet->flow = destination->flow;
	packet->shaper.traffic_class = packet->flow->traffic_class;
	packet->shaper.txtime_tai_ns = packet->requested_tai_ns;
	/* Messages of one round may be taken in any order; their numbers say which came first. */
	packet->shaper.order = loop->rounds << 32 | (uint32_t)taken->sequence;
}

/* On CLOCK_TAI. A time before 1970 is as late as one can be; false for one beyond all that is computed from
 * it (periods, thresholds): either comes from a mistake, or from someone who looks for one. */
static bool txtime_convert(int64_t txtime_ns, int64_t to_tai_ns, int64_t *txtime_tai_ns)
{
	if (__builtin_add_overflow(txtime_ns, to_tai_ns, txtime_tai_ns) ||
	    *txtime_tai_ns > INT64_MAX - 2 * NS_PER_SECOND)
		return false;
	if (*txtime_tai_ns < 0)
		*txtime_tai_ns = 0;
	return true;
}

static int message_accept(struct loop *loop, struct loop_ring *ring, const struct ktsn_ring_taken *taken,
			  const struct clock_offsets *offsets)
{
	struct loop_destination *destination = destination_of(loop, ring, taken);
	struct packet *packet;
	int64_t txtime_tai_ns;

	if (!destination ||
	    !txtime_convert(taken->txtime_ns, offsets->to_tai_ns[destination->flow->clock], &txtime_tai_ns)) {
		reject(loop, ring, taken->slot);
		return 0;
	}
	packet = packet_alloc(loop);
	if (!packet)
		return -ENOBUFS;
	packet->requested_tai_ns = txtime_tai_ns;
	packet_fill(loop, packet, ring, taken, destination);
	/* Otherwise it came in time for all we know, and if it leaves late that is ktsnd's doing. */
	if (txtime_tai_ns < loop->asleep_tai_ns && txtime_tai_ns < clock_tai_ns())
		packet->late_reason = LATE_TAKEN;
	packet->flow->packets++;
	atomic_fetch_add_explicit(&loop->pending, 1, memory_order_relaxed);
	counter_add(&loop->counters.taken, 1);
	watch_message(loop, packet->flow, txtime_tai_ns);
	packet_route(loop, packet, destination);
	return 0;
}

/* Takes all that is ready. False when memory ran short. */
static bool ring_drain(struct loop *loop, struct loop_ring *ring)
{
	uint32_t room =
		ring->consumer.slot_count; /* an application that refills all the time must not hold us */
	struct clock_offsets offsets;
	struct ktsn_ring_taken taken;
	int result;

	clock_offsets_read(&offsets);
	while (room-- > 0 && (result = ktsn_ring_take(&ring->consumer, &taken)) != 0) {
		if (result < 0) {
			reject(loop, ring, taken.slot);
		} else if (message_accept(loop, ring, &taken, &offsets)) {
			ktsn_ring_untake(&ring->consumer, taken.slot);
			return false;
		}
	}
	return true;
}

void loop_take_ring(struct loop *loop, struct loop_ring *ring)
{
	bool drained;

	if (!ring->opened || ring->closed || !ktsn_ring_ready(&ring->consumer))
		return;
	ring->busy++;
	drained = ring_drain(loop, ring);
	if (!drained) {
		counter_add(&loop->counters.frame_pool_empty, 1);
		loop->memory_short = true;
	}
	watch_backlog(loop, ring, !drained);
	ring->busy--;
	if (drained && ring->closings && !ring->busy)
		closings_end(loop, ring);
	if (drained && ring->closing && !ring->busy)
		ring_end(loop, ring);
	ring_retire_if_done(loop, ring);
}

void loop_take(struct loop *loop)
{
	int64_t now_tai_ns = clock_tai_ns();

	loop->rounds++;
	/* Backwards: a ring that is taken may leave the list, and the last takes its place. */
	for (uint32_t i = loop->watched_count; i-- > 0;)
		if (i < loop->watched_count)
			loop_take_ring(loop, loop->watched[i]);
	loop->asleep_tai_ns = now_tai_ns;
}
