/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the control thread wants of the loop, and how it gets its objects back.
 */
#include "loop_state.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

static void retire(struct loop *loop, struct loop_object *object)
{
	struct loop_object *top = atomic_load_explicit(&loop->retired, memory_order_relaxed);
	uint64_t one = 1;

	do
		object->next = top;
	while (!atomic_compare_exchange_weak_explicit(&loop->retired, &top, object, memory_order_release,
						      memory_order_relaxed));
	(void)!write(loop->retired_fd, &one, sizeof(one));
}

void flow_retire_if_done(struct loop *loop, struct loop_flow *flow)
{
	if (!flow->closed || flow->packets || flow->expectation.queued || flow->retired)
		return;
	flow->retired = true;
	retire(loop, &flow->object);
}

void ring_retire_if_done(struct loop *loop, struct loop_ring *ring)
{
	if (!ring->closed || ring->consumer.held || ring->expectations || ring->busy || ring->retired)
		return;
	ring->retired = true;
	/* One that was handed back and closed before it was resumed was never among those of its pod. */
	if (ring->opened)
		share_ring_retired(loop, ring->share);
	retire(loop, &ring->object);
}

static void ring_open(struct loop *loop, struct loop_ring *ring)
{
	/* Edge-triggered and never read: the application has the same eventfd, and could have a read block. */
	struct epoll_event doorbell = {.events = EPOLLIN | EPOLLET, .data.ptr = ring};

	(void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, ring->doorbell_fd, &doorbell);
	ring->opened = true;
	share_ring_opened(loop, ring->share);
	ring->threshold_tai_ns = KTSN_SHAPER_NEVER; /* so the memory says */
	counter_add(&loop->counters.uncertain, ring->uncertain);
	/* One that was handed back holds messages already. */
	loop_take_ring(loop, ring);
}

void ring_end(struct loop *loop, struct loop_ring *ring)
{
	watch_end(loop, ring);
	ring->closed = true;
	ring_retire_if_done(loop, ring);
}

/* What the application had sent still leaves, and be it that it waits for memory first. */
static void ring_close(struct loop *loop, struct loop_ring *ring)
{
	(void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, ring->doorbell_fd, NULL);
	loop_take_ring(loop, ring);
	if (ring->backlog)
		ring->closing = true;
	else
		ring_end(loop, ring);
}

static void flow_end(struct loop *loop, struct loop_ring *ring, uint32_t index)
{
	struct loop_flow *flow = ring->flows[index];

	ring->flows[index] = NULL;
	flow->closed = true;
	if (flow->report)
		ktsn_ring_reports_discard(&ring->consumer, index);
	flow_retire_if_done(loop, flow);
}

/* Whether all that was sent to a socket or address before it was closed has been taken. If not, for want of
 * memory or because this very ring is being taken, the close waits for it (closings_end). */
static bool taken_before_close(struct loop *loop, struct loop_ring *ring)
{
	loop_take_ring(loop, ring);
	if (!ring->backlog && !ring->busy)
		return true;
	ring->closings = true;
	return false;
}

static void flow_close(struct loop *loop, struct loop_ring *ring, uint32_t index)
{
	if (taken_before_close(loop, ring))
		flow_end(loop, ring, index);
	else
		ring->flows[index]->closing = true;
}

void destination_retire_if_done(struct loop *loop, struct loop_destination *destination)
{
	if (!destination->closed || destination->packets || destination->retired)
		return;
	destination->retired = true;
	retire(loop, &destination->object);
}

static void destination_end(struct loop *loop, struct loop_ring *ring, uint32_t index)
{
	struct loop_destination *destination = ring->destinations[index];

	ring->destinations[index] = NULL;
	destination->closed = true;
	destination_retire_if_done(loop, destination);
}

static void destination_close(struct loop *loop, struct loop_ring *ring, uint32_t index)
{
	if (taken_before_close(loop, ring))
		destination_end(loop, ring, index);
	else
		ring->destinations[index]->closing = true;
}

void closings_end(struct loop *loop, struct loop_ring *ring)
{
	ring->closings = false;
	for (uint32_t i = 0; i < LOOP_DESTINATIONS_PER_RING; i++)
		if (ring->destinations[i] && ring->destinations[i]->closing)
			destination_end(loop, ring, i);
	for (uint32_t i = 0; i < LOOP_FLOWS_PER_RING; i++)
		if (ring->flows[i] && ring->flows[i]->closing)
			flow_end(loop, ring, i);
}

/* Whether the first message that waits there may have the packets that its copies take; it has one already. If it is the
 * last of all, there will never be more. */
static bool parked_has_room(const struct loop *loop, const struct loop_destination *destination)
{
	uint32_t more = destination_frames(destination) - 1;

	return !more || share_room(loop, destination->ring->share) >= more || loop_pending(loop) == 1;
}

static struct packet *unpark(struct loop_destination *destination)
{
	struct packet *packet = destination->parked_first;

	destination->parked_first = packet->next;
	if (!destination->parked_first)
		destination->parked_last = NULL;
	return packet;
}

/* All that waits there, or as many as there is room for. Whether none waits any more. */
static bool parked_go(struct loop *loop, struct loop_destination *destination)
{
	enum loop_destination_state state = destination->route.state;

	while (destination->parked_first) {
		if (state == DESTINATION_RESOLVED && !parked_has_room(loop, destination))
			return false;
		if (state == DESTINATION_RESOLVED)
			packet_shape(loop, unpark(destination), &destination->route);
		else if (state == DESTINATION_CLOSED)
			packet_drop(loop, unpark(destination), &loop->counters.drop_closed);
		else
			packet_drop(loop, unpark(destination), &loop->counters.drop_unresolved);
	}
	return true;
}

static void unparking_add(struct loop *loop, struct loop_destination *destination)
{
	if (destination->unparking)
		return;
	destination->unparking = true;
	destination->unparking_next = loop->unparking;
	loop->unparking = destination;
}

static void unparking_remove(struct loop *loop, struct loop_destination *destination)
{
	struct loop_destination **at = &loop->unparking;

	if (!destination->unparking)
		return;
	while (*at != destination)
		at = &(*at)->unparking_next;
	*at = destination->unparking_next;
	destination->unparking = false;
}

/* What of it can. Neither it nor its flow nor its ring ends while we are at it. */
static void destination_unpark(struct loop *loop, struct loop_destination *destination)
{
	struct loop_flow *flow = destination->flow;
	struct loop_ring *ring = destination->ring;

	ring->busy++;
	flow->packets++;
	destination->packets++;
	if (parked_go(loop, destination))
		unparking_remove(loop, destination);
	else
		unparking_add(loop, destination);
	destination->packets--;
	destination_retire_if_done(loop, destination);
	flow->packets--;
	flow_retire_if_done(loop, flow);
	ring->busy--;
	ring_retire_if_done(loop, ring);
}

void parked_go_on(struct loop *loop)
{
	enum { AGAIN_NS = 50000 };
	struct loop_destination *destination = loop->unparking;

	loop->unparking = NULL;
	while (destination) {
		struct loop_destination *next = destination->unparking_next;

		destination->unparking = false;
		/* Or it waits for its address again. */
		if (destination->route.state != DESTINATION_RESOLVING)
			destination_unpark(loop, destination);
		destination = next;
	}
	if (loop->unparking)
		share_wake_by(loop, loop->round_tai_ns + AGAIN_NS);
}

static void copies_take(struct loop *loop, struct loop_destination *destination, struct loop_copies *copies)
{
	struct loop_copies *before = destination->copies;

	destination->copies = copies;
	if (before)
		retire(loop, &before->object);
}

static void destination_update(struct loop *loop, struct loop_destination *destination,
			       const struct loop_route *route, struct loop_copies *copies)
{
	if (destination->retired) {
		if (copies)
			retire(loop, &copies->object);
		return;
	}
	loop->round_tai_ns = clock_tai_ns();
	destination->route = *route;
	if (copies)
		copies_take(loop, destination, copies);
	if (route->state != DESTINATION_RESOLVING)
		destination_unpark(loop, destination);
	if (loop->unparking)
		share_wake_by(loop, loop->round_tai_ns);
}

static void gates_take(struct loop *loop, struct loop_gates *gates)
{
	struct loop_gates *before = loop->gates;

	loop->gates = gates;
	ktsn_shaper_gates_set(loop->outlets[OUTLET_UPLINK].shaper, &gates->gates);
	if (before)
		retire(loop, &before->object);
}

static void execute(struct loop *loop, const struct loop_command *command)
{
	switch (command->type) {
	case COMMAND_RING_OPEN:
		ring_open(loop, command->ring);
		break;
	case COMMAND_RING_CLOSE:
		ring_close(loop, command->ring);
		break;
	case COMMAND_FLOW_OPEN:
		command->ring->flows[command->index] = command->flow;
		break;
	case COMMAND_FLOW_CLOSE:
		flow_close(loop, command->ring, command->index);
		break;
	case COMMAND_DESTINATION_OPEN:
		command->ring->destinations[command->index] = command->destination;
		break;
	case COMMAND_DESTINATION_CLOSE:
		destination_close(loop, command->ring, command->index);
		break;
	case COMMAND_DESTINATION_UPDATE:
		destination_update(loop, command->destination, &command->route, command->copies);
		break;
	case COMMAND_GATES:
		gates_take(loop, command->gates);
		break;
	case COMMAND_CLASSES:
		loop->classes = command->classes;
		break;
	case COMMAND_STRATEGY:
		for (int i = 0; i < OUTLETS; i++)
			ktsn_shaper_strategy_set(loop->outlets[i].shaper, command->strategy);
		break;
	case COMMAND_LIMITS:
		share_wake_by(loop, clock_tai_ns());
		break;
	}
}

static bool flow_announced(const struct loop *loop, const struct loop_ring *ring, uint32_t index,
			   const struct loop_flow *flow)
{
	const struct loop_command *command;

	for (uint32_t i = 0; (command = commands_peek(&loop->commands, i)); i++)
		if (command->type == COMMAND_FLOW_OPEN && command->ring == ring && command->index == index &&
		    command->flow == flow)
			return true;
	return ring->flows[index] == flow;
}

/* Only looked up, not executed: a message may be taken in the middle of another command. */
struct loop_destination *destination_announced(const struct loop *loop, const struct loop_ring *ring,
					       uint32_t flow_index, uint32_t index)
{
	const struct loop_command *command;

	for (uint32_t i = 0; (command = commands_peek(&loop->commands, i)); i++)
		if (command->type == COMMAND_DESTINATION_OPEN && command->ring == ring &&
		    command->index == index &&
		    flow_announced(loop, ring, flow_index, command->destination->flow))
			return command->destination;
	return NULL;
}

void loop_commands(struct loop *loop)
{
	struct loop_command command;

	while (commands_pop(&loop->commands, &command))
		execute(loop, &command);
}
