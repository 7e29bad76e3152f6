/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that wait at their destination until its next hop is known. Then they continue, or are dropped
 * when nobody answers. Each round of the loop handles a few: there may be thousands, and others have
 * departures due.
 *
 *   taken --> pending --(next hop)--> released: pods in turn, of each pod its destinations --> shaper or drop
 *
 * Messages of one destination continue in the order of their transmit times, as the shaper would send them if
 * it had them all: what a round releases may leave before the next. A message that is handed over meanwhile
 * takes its place among those that still wait.
 */
#include "pending.h"

#include "container_of.h"
#include "finish.h"
#include "leftist_heap.h"
#include "loop_state.h"
#include "quotas.h"
#include "replication.h"
#include "retire.h"
#include "round.h"

enum {
	/* So many frames are made of them in a round, or messages dropped. */
	RELEASE_AT_ONCE = 32,
	/* So long those wait that there is no room for. */
	ROOM_RETRY_NS = 50000,
};

/* So many more wait for nothing but room; negative numbers wrap. */
static void released_count_add(struct loop *loop, const struct loop_destination *destination, uint32_t count)
{
	loop->released.count += count;
	destination->ring->quota->released_count += count;
}

void pending_add(struct loop *loop, struct loop_destination *destination, struct packet *packet)
{
	packet->late_reason = LATE_UNRESOLVED;
	destination->pending = ktsn_leftist_heap_push(destination->pending, &packet->shaper);
	destination->pending_count++;
	if (destination->is_released)
		released_count_add(loop, destination, 1);
}

/* The first of one that has its turn. */
static struct packet *pending_take(struct loop *loop, struct loop_destination *destination)
{
	struct packet *packet = container_of(destination->pending, struct packet, shaper);

	destination->pending = ktsn_leftist_heap_pop(destination->pending);
	destination->pending_count--;
	released_count_add(loop, destination, (uint32_t)-1);
	return packet;
}

static void destination_release(struct loop *loop, struct loop_destination *destination)
{
	struct quota *quota = destination->ring->quota;

	if (destination->is_released)
		return;
	destination->is_released = true;
	released_count_add(loop, destination, destination->pending_count);
	if (!quota->released_destinations)
		ring_list_add(&loop->released.quotas, &quota->released_entry);
	ring_list_add(&quota->released_destinations, &destination->released_entry);
}

static void destination_hold(struct loop *loop, struct loop_destination *destination)
{
	struct quota *quota = destination->ring->quota;

	if (!destination->is_released)
		return;
	destination->is_released = false;
	released_count_add(loop, destination, -destination->pending_count);
	ring_list_remove(&quota->released_destinations, &destination->released_entry);
	if (!quota->released_destinations)
		ring_list_remove(&loop->released.quotas, &quota->released_entry);
}

void pending_update(struct loop *loop, struct loop_destination *destination)
{
	if (destination->pending && destination->route.state != DESTINATION_RESOLVING)
		destination_release(loop, destination);
	else
		destination_hold(loop, destination);
}

/* Whether there will never be room for so many more packets: those that would have to leave first wait for
 * room, too. They are all that the pod has, and it may not have more, or all that there are. */
static bool room_never_comes(const struct loop *loop, const struct quota *quota, uint32_t more)
{
	uint32_t pending = quota_pending(quota), pending_max = quota_pending_max(quota);
	bool own = pending >= pending_max || more > pending_max - pending;

	return (own && quota->released_count == pending) ||
	       loop->released.count == loop->config.packets - loop->pool.free_count;
}

/* Whether the first message that waits there may have the packets that its copies take; it has one already.
 * Copies for which there will never be room are dropped. */
static bool pending_has_room(const struct loop *loop, const struct loop_destination *destination)
{
	const struct quota *quota = destination->ring->quota;
	uint32_t more = destination_frames(destination) - 1;

	return !more || quota_room(loop, quota) >= more || room_never_comes(loop, quota, more);
}

/* Whether the first message that waits there went on or was dropped: otherwise there was no room. */
static bool first_continue(struct loop *loop, struct loop_destination *destination)
{
	switch (destination->route.state) {
	case DESTINATION_RESOLVED:
		if (!pending_has_room(loop, destination))
			return false;
		message_shape(loop, pending_take(loop, destination), &destination->route);
		return true;
	case DESTINATION_CLOSED:
		packet_drop(loop, pending_take(loop, destination), &loop->counters.drop_closed);
		return true;
	case DESTINATION_UNREACHABLE:
		packet_drop(loop, pending_take(loop, destination), &loop->counters.drop_unresolved);
		return true;
	case DESTINATION_RESOLVING:
		break;
	}
	return false;
}

/* A destination has its turn; what first_continue() returns. Neither it nor its flow nor its ring ends while
 * we are at it. */
static bool turn_continue(struct loop *loop, struct loop_destination *destination)
{
	struct loop_flow *flow = destination->flow;
	struct loop_ring *ring = destination->ring;
	bool continued;

	ring->busy++;
	flow->packets++;
	destination->packets++;
	continued = first_continue(loop, destination);
	pending_update(loop, destination);
	destination->packets--;
	destination_retire_if_done(loop, destination);
	flow->packets--;
	flow_retire_if_done(loop, flow);
	ring->busy--;
	ring_retire_if_done(loop, ring);
	return continued;
}

static struct loop_destination *turn_next(struct loop *loop)
{
	struct quota *quota = container_of(loop->released.quotas, struct quota, released_entry);
	struct loop_destination *destination =
		container_of(quota->released_destinations, struct loop_destination, released_entry);

	loop->released.quotas = quota->released_entry.next;
	quota->released_destinations = destination->released_entry.next;
	return destination;
}

/* Whether there is time for more turns, of the pod that is next. The clock is read every TAKE_AT_ONCE turns.
 */
static bool turns_may_continue(struct loop *loop, uint32_t turns)
{
	if (turns >= RELEASE_AT_ONCE)
		return false;
	return !turns || turns % TAKE_AT_ONCE ||
	       !round_must_end(loop, container_of(loop->released.quotas, const struct quota, released_entry));
}

void pending_release(struct loop *loop)
{
	bool any = false;

	/* A turn that finds no room takes its time too. */
	for (uint32_t turns = 0; loop->released.quotas && turns_may_continue(loop, turns); turns++)
		any |= turn_continue(loop, turn_next(loop));
	if (loop->released.quotas)
		quota_wake_by(loop, loop->round.now_tai_ns + (any ? 0 : ROOM_RETRY_NS));
}
