/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that go to several: one frame for each, and each through its own outlet at the message's time. The
 * message keeps its slot until the last has left, and counts once: as sent when at least one copy left, and late
 * when one did.
 *
 * The packet that was taken is the first copy, and stands for the message; the others point to it.
 */
#include "loop_state.h"

#include <string.h>

/* Where taking put the payload: behind the longest headers. */
static const uint8_t *payload_of(const struct packet *message)
{
	const struct loop_route *common = &message->destination->route;

	return message->frame.data + ktsn_frame_header_bytes(&common->path, &common->tunnel);
}

static uint8_t *payload_place(struct packet *packet, const struct loop_route *route)
{
	return packet->frame.data +
	       ktsn_frame_header_bytes(&route->path, route->bridge_link_index ? NULL : &route->tunnel);
}

static void copy_init(struct loop *loop, struct packet *copy, struct packet *message)
{
	copy->message = message;
	copy->flow = message->flow;
	copy->destination = message->destination;
	copy->requested_tai_ns = message->requested_tai_ns;
	copy->handed_tai_ns = message->handed_tai_ns;
	copy->late_reason = message->late_reason;
	copy->slot = message->slot;
	copy->payload_bytes = message->payload_bytes;
	copy->trace = 0;
	copy->shaper.traffic_class = message->shaper.traffic_class;
	copy->shaper.deadline = message->shaper.deadline;
	copy->shaper.txtime_tai_ns = message->shaper.txtime_tai_ns;
	copy->shaper.order = message->shaper.order;
	clocks_packet_held(loop, copy);
}

static void copy_shape(struct loop *loop, struct packet *message, const struct loop_route *route)
{
	struct share *share = message->flow->ring->share;
	/* More than there can ever be room for are dropped. */
	struct packet *copy = share_room(loop, share) ? packet_alloc(loop) : NULL;

	if (!copy) {
		counter_add(&loop->counters.frame_pool_empty, 1);
		counter_add(&loop->counters.copies_dropped, 1);
		return;
	}
	copy_init(loop, copy, message);
	memcpy(payload_place(copy, route), payload_of(message), message->payload_bytes);
	message->copies_left++;
	share_pending_add(loop, share, 1);
	frame_shape(loop, copy, route);
}

void copies_shape(struct loop *loop, struct packet *message)
{
	const struct loop_copies *copies = message->destination->copies;

	message->message = message;
	message->copies_left = 1;
	message->copies_sent = 0;
	if (!copies->count) {
		packet_drop(loop, message, &loop->counters.drop_unresolved);
		return;
	}
	/* To the pod's rate each copy is a message. */
	share_rate_charge(&message->flow->ring->share->messages, copies->count - 1, loop->round_tai_ns);
	for (uint32_t i = 1; i < copies->count; i++)
		copy_shape(loop, message, &copies->routes[i]);
	/* Last, since with its last copy the message ends. */
	memmove(payload_place(message, &copies->routes[0]), payload_of(message), message->payload_bytes);
	frame_shape(loop, message, &copies->routes[0]);
}

void copy_sent(struct loop *loop, struct packet *copy, _Atomic uint64_t *lateness, int64_t departed_tai_ns)
{
	struct packet *message = copy->message;

	counter_add(&loop->counters.copies_sent, 1);
	if (!message->copies_sent || lateness != &loop->counters.on_time)
		message->outcome = lateness;
	message->copies_sent++;
	message->departed_tai_ns = departed_tai_ns;
}

void copy_dropped(struct loop *loop, struct packet *copy, _Atomic uint64_t *reason)
{
	counter_add(&loop->counters.copies_dropped, 1);
	if (!copy->message->copies_sent)
		copy->message->outcome = reason;
}

struct packet *copy_finish(struct loop *loop, struct packet *copy)
{
	struct packet *message = copy->message;

	if (copy != message) {
		clocks_packet_done(loop, copy);
		packet_free(loop, copy);
	}
	if (--message->copies_left)
		return NULL;
	if (message->copies_sent) {
		message_sent(loop, message, message->outcome, message->departed_tai_ns);
	} else {
		message_dropped(loop, message, message->outcome);
		message_report(loop, message, message->outcome);
	}
	return message;
}
