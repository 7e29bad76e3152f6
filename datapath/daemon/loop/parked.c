/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that wait at their destination for its address. When it is known they go on, and when it is known that nobody
 * answers they are dropped: a few in each round of the loop, since they may be thousands, and others have something due.
 *
 *   taken --> parked --(address)--> unparking: pods have turns, in each pod its destinations --> shaper, or dropped
 */
#include "loop_state.h"

#include "container_of.h"

enum {
	/* So many frames are made of them in a round, or messages dropped. */
	UNPARK_AT_ONCE = 32,
	/* So long those wait that there is no room for. */
	ROOM_RETRY_NS = 50000,
};

/* So many more wait for nothing but room; negative numbers wrap. */
static void released_add(struct loop *loop, const struct loop_destination *destination, uint32_t count)
{
	loop->released += count;
	destination->ring->share->released += count;
}

void park(struct loop *loop, struct loop_destination *destination, struct packet *packet)
{
	packet->next = NULL;
	packet->late_reason = LATE_UNRESOLVED;
	if (destination->parked_last)
		destination->parked_last->next = packet;
	else
		destination->parked_first = packet;
	destination->parked_last = packet;
	destination->parked_count++;
	if (destination->is_unparking)
		released_add(loop, destination, 1);
}

/* The first of one that has its turn. */
static struct packet *unpark(struct loop *loop, struct loop_destination *destination)
{
	struct packet *packet = destination->parked_first;

	destination->parked_first = packet->next;
	if (!destination->parked_first)
		destination->parked_last = NULL;
	destination->parked_count--;
	released_add(loop, destination, (uint32_t)-1);
	return packet;
}

static void unparking_add(struct loop *loop, struct loop_destination *destination)
{
	struct share *share = destination->ring->share;

	if (destination->is_unparking)
		return;
	destination->is_unparking = true;
	released_add(loop, destination, destination->parked_count);
	if (!share->unparking_destinations)
		circle_add(&loop->unparking, &share->unparking);
	circle_add(&share->unparking_destinations, &destination->unparking);
}

static void unparking_remove(struct loop *loop, struct loop_destination *destination)
{
	struct share *share = destination->ring->share;

	if (!destination->is_unparking)
		return;
	destination->is_unparking = false;
	released_add(loop, destination, -destination->parked_count);
	circle_remove(&share->unparking_destinations, &destination->unparking);
	if (!share->unparking_destinations)
		circle_remove(&loop->unparking, &share->unparking);
}

void parked_follow(struct loop *loop, struct loop_destination *destination)
{
	if (destination->parked_first && destination->route.state != DESTINATION_RESOLVING)
		unparking_add(loop, destination);
	else
		unparking_remove(loop, destination);
}

/* Whether there will never be room for so many more packets: those that would have to leave first wait for room, too. They
 * are all that the pod has, and it may not have more, or all that there are. */
static bool waits_in_vain(const struct loop *loop, const struct share *share, uint32_t more)
{
	uint32_t pending = share_pending(share), pending_max = share_pending_max(share);
	bool own = pending >= pending_max || more > pending_max - pending;

	return (own && share->released == pending) ||
	       loop->released == loop->config.packets - loop->packets_free_count;
}

/* Whether the first message that waits there may have the packets that its copies take; it has one already. Copies for
 * which there will never be room are dropped. */
static bool parked_has_room(const struct loop *loop, const struct loop_destination *destination)
{
	const struct share *share = destination->ring->share;
	uint32_t more = destination_frames(destination) - 1;

	return !more || share_room(loop, share) >= more || waits_in_vain(loop, share, more);
}

/* The first message that waits there. How many went on or were dropped, 0: there was no room. */
static uint32_t first_goes(struct loop *loop, struct loop_destination *destination)
{
	switch (destination->route.state) {
	case DESTINATION_RESOLVED:
		if (!parked_has_room(loop, destination))
			return 0;
		packet_shape(loop, unpark(loop, destination), &destination->route);
		return 1;
	case DESTINATION_CLOSED:
		packet_drop(loop, unpark(loop, destination), &loop->counters.drop_closed);
		return 1;
	case DESTINATION_UNREACHABLE:
		packet_drop(loop, unpark(loop, destination), &loop->counters.drop_unresolved);
		return 1;
	case DESTINATION_RESOLVING:
		break;
	}
	return 0;
}

/* A destination has its turn; what first_goes() returns. Neither it nor its flow nor its ring ends while we are at it. */
static uint32_t turn_go(struct loop *loop, struct loop_destination *destination)
{
	struct loop_flow *flow = destination->flow;
	struct loop_ring *ring = destination->ring;
	uint32_t frames;

	ring->busy++;
	flow->packets++;
	destination->packets++;
	frames = first_goes(loop, destination);
	parked_follow(loop, destination);
	destination->packets--;
	destination_retire_if_done(loop, destination);
	flow->packets--;
	flow_retire_if_done(loop, flow);
	ring->busy--;
	ring_retire_if_done(loop, ring);
	return frames;
}

static struct loop_destination *turn_next(struct loop *loop)
{
	struct share *share = container_of(loop->unparking, struct share, unparking);
	struct loop_destination *destination =
		container_of(share->unparking_destinations, struct loop_destination, unparking);

	loop->unparking = share->unparking.next;
	share->unparking_destinations = destination->unparking.next;
	return destination;
}

/* Whether there is time for more, of the pod in turn. */
static bool turns_may_go_on(struct loop *loop, uint32_t frames, uint32_t *looked)
{
	const struct share *share = container_of(loop->unparking, const struct share, unparking);

	if (frames >= UNPARK_AT_ONCE)
		return false;
	if (frames - *looked < TAKE_AT_ONCE)
		return true;
	*looked = frames;
	return !departure_calls(loop, share);
}

void parked_go_on(struct loop *loop)
{
	uint32_t frames = 0, looked = 0;
	bool in_vain = true;

	while (loop->unparking && turns_may_go_on(loop, frames, &looked)) {
		uint32_t went = turn_go(loop, turn_next(loop));

		/* To find no room takes its time too. */
		frames += went ? went : 1;
		in_vain = in_vain && !went;
	}
	if (loop->unparking)
		share_wake_by(loop, loop->round_tai_ns + (in_vain ? ROOM_RETRY_NS : 0));
}
