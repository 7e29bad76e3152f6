/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that go to several: one frame for each, and each through its own outlet at the message's time. The
 * message keeps its slot until the last has left, and counts once: as sent when at least one copy left, and late
 * when one did.
 *
 * The copies are made a few in each round of the loop, since they may be many and others have something due. What the
 * message needs is its own from the beginning: it either waits as a whole or can be made. It goes where it went when it
 * began, whatever is known since.
 *
 *   begun: packets promised --> pods have turns, in each pod its messages --> made, the first copy last --> shaper
 *
 * The packet that was taken is the first copy, and stands for the message; the others point to it.
 */
#include "loop_state.h"

#include "container_of.h"

#include <string.h>

enum {
	/* So many copies are made in a round. */
	SPREAD_AT_ONCE = 32,
};

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
	copy->ipv4_id = message->ipv4_id;
	copy->trace = 0;
	copy->shaper.traffic_class = message->shaper.traffic_class;
	copy->shaper.deadline = message->shaper.deadline;
	copy->shaper.txtime_tai_ns = message->shaper.txtime_tai_ns;
	copy->shaper.order = message->shaper.order;
	clocks_packet_held(loop, copy);
}

static void copies_unroom(struct loop *loop, uint32_t count)
{
	counter_add(&loop->counters.frame_pool_empty, count);
	counter_add(&loop->counters.copies_dropped, count);
}

/* The next copy beside the first. */
static void copy_make(struct loop *loop, struct packet *message)
{
	const struct loop_route *route = &message->copies->routes[message->copies_unmade--];
	struct packet *copy = packet_alloc(loop);

	loop->promised--;
	if (!copy) {
		quota_pending_add(loop, message->flow->ring->quota, (uint32_t)-1);
		copies_unroom(loop, 1);
		return;
	}
	copy_init(loop, copy, message);
	memcpy(payload_place(copy, route), message->payload, message->payload_bytes);
	message->copies_left++;
	frame_shape(loop, copy, route);
}

/* Last, since with its last copy the message may end, and its destination, and what that goes to. */
static void first_make(struct loop *loop, struct packet *message)
{
	const struct loop_route route = message->copies->routes[0];

	message->copies->messages--;
	replication_retire_if_done(loop, message->copies);
	memmove(payload_place(message, &route), message->payload, message->payload_bytes);
	frame_shape(loop, message, &route);
}

/* ---- in turns ---- */

static void spreading_add(struct loop *loop, struct quota *quota, struct packet *message)
{
	message->next = NULL;
	if (quota->spreading_first) {
		quota->spreading_last->next = message;
	} else {
		quota->spreading_first = message;
		ring_list_add(&loop->spreading, &quota->spreading);
	}
	quota->spreading_last = message;
}

static void spreading_remove_first(struct loop *loop, struct quota *quota)
{
	quota->spreading_first = quota->spreading_first->next;
	if (!quota->spreading_first)
		ring_list_remove(&loop->spreading, &quota->spreading);
}

void copies_begin(struct loop *loop, struct packet *message)
{
	struct loop_replication *copies = message->destination->copies;
	struct quota *quota = message->flow->ring->quota;
	uint32_t more = copies->count - 1, room;

	message->message = message;
	message->copies_left = 1;
	message->copies_sent = 0;
	if (!copies->count) {
		packet_drop(loop, message, &loop->counters.drop_unresolved);
		return;
	}
	/* To the pod's rate each copy is a message. */
	quota_rate_charge(&quota->messages, more, loop->round_tai_ns);
	/* More than there can ever be room for are dropped. */
	room = quota_room(loop, quota);
	message->copies_unmade = more < room ? more : room;
	copies_unroom(loop, more - message->copies_unmade);
	loop->promised += message->copies_unmade;
	quota_pending_add(loop, quota, message->copies_unmade);
	message->copies = copies;
	copies->messages++;
	message->payload = payload_of(message);
	spreading_add(loop, quota, message);
}

/* A pod has its turn, for one copy of its first message. */
static void turn_make(struct loop *loop)
{
	struct quota *quota = container_of(loop->spreading, struct quota, spreading);
	struct packet *message = quota->spreading_first;

	loop->spreading = quota->spreading.next;
	if (message->copies_unmade) {
		copy_make(loop, message);
		return;
	}
	spreading_remove_first(loop, quota);
	first_make(loop, message);
}

/* Whether there is time for more, of the pod in turn. */
static bool turns_may_go_on(struct loop *loop, uint32_t made)
{
	if (made % TAKE_AT_ONCE || !made)
		return true;
	return made < SPREAD_AT_ONCE &&
	       !departure_calls(loop, container_of(loop->spreading, const struct quota, spreading));
}

void copies_go_on(struct loop *loop)
{
	for (uint32_t made = 0; loop->spreading && turns_may_go_on(loop, made); made++)
		turn_make(loop);
	if (loop->spreading)
		quota_wake_by(loop, loop->round_tai_ns);
}

void copy_sent(struct loop *loop, struct packet *copy, _Atomic uint64_t *lateness, int64_t departed_tai_ns)
{
	struct packet *message = copy->message;

	counter_add(&loop->counters.copies_sent, 1);
	loop->parted += !message->copies_sent;
	if (!message->copies_sent || lateness != &loop->counters.on_time)
		message->outcome = lateness;
	message->copies_sent++;
	message->departed_tai_ns = departed_tai_ns;
	message->overrun |= copy->overrun;
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
	loop->parted -= message->copies_sent > 0;
	if (message->copies_sent) {
		message_sent(loop, message, message->outcome, message->departed_tai_ns);
	} else {
		message_dropped(loop, message, message->outcome);
		message_report(loop, message, message->outcome);
	}
	return message;
}
