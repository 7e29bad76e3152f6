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

void park(struct loop_destination *destination, struct packet *packet)
{
	packet->next = NULL;
	packet->late_reason = LATE_UNRESOLVED;
	if (destination->parked_last)
		destination->parked_last->next = packet;
	else
		destination->parked_first = packet;
	destination->parked_last = packet;
}

static struct packet *unpark(struct loop_destination *destination)
{
	struct packet *packet = destination->parked_first;

	destination->parked_first = packet->next;
	if (!destination->parked_first)
		destination->parked_last = NULL;
	return packet;
}

static void unparking_add(struct loop *loop, struct loop_destination *destination)
{
	struct share *share = destination->ring->share;

	if (destination->is_unparking)
		return;
	destination->is_unparking = true;
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

/* Whether the first message that waits there may have the packets that its copies take; it has one already. If it is the
 * last of all, there will never be more. */
static bool parked_has_room(const struct loop *loop, const struct loop_destination *destination)
{
	uint32_t more = destination_frames(destination) - 1;

	return !more || share_room(loop, destination->ring->share) >= more || loop_pending(loop) == 1;
}

/* The first message that waits there. How many frames were made of it or dropped, 0: there was no room. */
static uint32_t first_goes(struct loop *loop, struct loop_destination *destination)
{
	uint32_t frames = destination_frames(destination);

	switch (destination->route.state) {
	case DESTINATION_RESOLVED:
		if (!parked_has_room(loop, destination))
			return 0;
		packet_shape(loop, unpark(destination), &destination->route);
		return frames;
	case DESTINATION_CLOSED:
		packet_drop(loop, unpark(destination), &loop->counters.drop_closed);
		return 1;
	case DESTINATION_UNREACHABLE:
		packet_drop(loop, unpark(destination), &loop->counters.drop_unresolved);
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
