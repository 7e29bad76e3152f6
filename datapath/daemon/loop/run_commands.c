/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the control thread wants of the loop, and how it gets its objects back.
 */
#include "loop_state.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static void retire(struct loop *loop, struct loop_object *object)
{
	struct loop_object *top = atomic_load_explicit(&loop->retired, memory_order_relaxed);
	uint64_t one = 1;

	do
		object->next = top;
	while (!atomic_compare_exchange_weak_explicit(&loop->retired, &top, object, memory_order_release,
						      memory_order_relaxed));
	/* It is taken after this was read (loop_retired): while there are others in it, that is still to come. */
	if (!top)
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
		quota_ring_retired(loop, ring->quota);
	retire(loop, &ring->object);
}

static void ring_open(struct loop *loop, struct loop_ring *ring)
{
	doorbell_listen(loop, ring, true);
	ring->opened = true;
	quota_ring_opened(loop, ring->quota);
	ring->threshold_tai_ns = KTSN_SHAPER_NEVER; /* so the memory says */
	counter_add(&loop->counters.uncertain, ring->uncertain);
	/* One that was handed back holds messages already. */
	loop_take_ring(loop, ring);
}

/* Of a ring that another ktsnd made: its messages were looked for when it was opened. */
static void ring_listen(const struct loop *loop, struct loop_ring *ring, int set_fd)
{
	ring->doorbell_set_fd = set_fd;
	if (ring->opened && !ring->closing && !ring->closed && !ring->muted)
		doorbell_listen(loop, ring, true);
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
	doorbell_listen(loop, ring, false);
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

static void destination_open(struct loop_ring *ring, uint32_t index, struct loop_destination *destination)
{
	ring->destinations[index] = destination;
	atomic_fetch_sub_explicit(&ring->announced, 1, memory_order_relaxed);
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

void replication_retire_if_done(struct loop *loop, struct loop_replication *copies)
{
	if (copies->replaced && !copies->messages)
		retire(loop, &copies->object);
}

static void copies_take(struct loop *loop, struct loop_destination *destination,
			struct loop_replication *copies)
{
	struct loop_replication *before = destination->copies;

	destination->copies = copies;
	if (!before)
		return;
	before->replaced = true;
	replication_retire_if_done(loop, before);
}

static void destination_update(struct loop *loop, struct loop_destination *destination,
			       const struct loop_route *route, struct loop_replication *copies)
{
	if (destination->retired) {
		if (copies)
			retire(loop, &copies->object);
		return;
	}
	destination->route = *route;
	if (copies)
		copies_take(loop, destination, copies);
	pending_follow(loop, destination);
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
	case COMMAND_RING_LISTEN:
		ring_listen(loop, command->ring, (int)command->index);
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
		destination_open(command->ring, command->index, command->destination);
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
		loop->strategy = command->strategy;
		watch_forget(loop);
		break;
	case COMMAND_LIMITS:
		quota_wake_by(loop, clock_tai_ns());
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
struct loop_destination *destination_announced(struct loop *loop, const struct loop_ring *ring,
					       uint32_t flow_index, uint32_t index)
{
	const struct loop_command *command;

	/* A message may name what never was, and the commands be many. */
	if (!atomic_load_explicit(&ring->announced, memory_order_relaxed))
		return NULL;
	/* It may take as long as TAKE_AT_ONCE messages: after this one the clock is looked at. */
	loop->take_count |= TAKE_AT_ONCE - 1;
	for (uint32_t i = 0; (command = commands_peek(&loop->commands, i)); i++)
		if (command->type == COMMAND_DESTINATION_OPEN && command->ring == ring &&
		    command->index == index &&
		    flow_announced(loop, ring, flow_index, command->destination->flow))
			return command->destination;
	return NULL;
}

void loop_commands(struct loop *loop)
{
	/* A neighbour that thousands of destinations have is as many commands, and others have something due. */
	enum { COMMANDS_AT_ONCE = 8 };
	struct loop_command command;

	for (int i = 0; i < COMMANDS_AT_ONCE && commands_pop(&loop->commands, &command); i++)
		execute(loop, &command);
}

bool loop_commands_left(const struct loop *loop)
{
	return commands_peek(&loop->commands, 0) != NULL;
}
