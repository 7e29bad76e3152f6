/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of the control thread: their execution, and the control thread's side of the queue.
 */
#include "commands.h"

#include "accept.h"
#include "clock.h"
#include "clock_changes.h"
#include "loop_state.h"
#include "outcome.h"
#include "pool.h"
#include "send.h"
#include "take.h"
#include "watch.h"

static void ring_open(struct loop *loop, struct loop_ring *ring)
{
	doorbell_listen(loop, ring, true);
	ring->opened = true;
	quota_ring_opened(loop, ring->quota);
	if (ring->untimed)
		alive_begin(loop, ring);
	ring->threshold_tai_ns = KTSN_SHAPER_NEVER; /* as in new memory */
	counter_add(&loop->counters.uncertain, ring->uncertain);
	held_refusal_begin(ring);
	/* A ring that was handed back has messages already. */
	loop_take_ring(loop, ring);
}

/* Arms the doorbell of a ring that another ktsnd made. Its messages were taken when it was opened. */
static void ring_listen(const struct loop *loop, struct loop_ring *ring, int set_fd)
{
	ring->doorbell_set_fd = set_fd;
	if (ring->opened && !ring->closing && !ring->closed && !ring->throttled)
		doorbell_listen(loop, ring, true);
}

/* Messages that the application has sent still leave, even if they wait for memory first. */
static void ring_close(struct loop *loop, struct loop_ring *ring)
{
	doorbell_listen(loop, ring, false);
	loop_take_ring(loop, ring);
	if (ring->backlog || closings_wait(ring))
		ring->closing = true;
	else
		ring_end(loop, ring);
}

/* Whether all messages that were sent before the close have been taken. If memory is short, if this ring is
 * just being taken from, or if a full ring would keep others waiting, they have not, and the close waits
 * (closings_end). */
static bool taken_before_close(struct loop *loop, struct loop_ring *ring)
{
	loop_take_turn(loop, ring);
	return !ring->backlog && !ring->busy;
}

static void flow_close(struct loop *loop, struct loop_ring *ring, uint32_t index)
{
	if (taken_before_close(loop, ring))
		flow_end(loop, ring, index);
	else
		flow_end_later(ring, index);
}

static void destination_open(struct loop_ring *ring, uint32_t index, struct loop_destination *destination)
{
	ring->destinations[index] = destination;
	atomic_fetch_sub_explicit(&ring->announced, 1, memory_order_relaxed);
}

static void destination_close(struct loop *loop, struct loop_ring *ring, uint32_t index)
{
	if (taken_before_close(loop, ring))
		destination_end(loop, ring, index);
	else
		destination_end_later(ring, index);
}

static void replication_take(struct loop *loop, struct loop_destination *destination,
			     struct loop_replication *replication)
{
	struct loop_replication *previous = destination->replication;

	destination->replication = replication;
	if (!previous)
		return;
	previous->replaced = true;
	replication_retire_if_done(loop, previous);
}

static void destination_update(struct loop *loop, struct loop_destination *destination,
			       const struct loop_route *route, struct loop_replication *replication)
{
	if (destination->retired) {
		if (replication)
			object_retire(loop, &replication->object);
		return;
	}
	if (route->payload_max_bytes < destination->route.payload_max_bytes)
		ktsn_ring_mtu_lowered(&destination->ring->consumer);
	destination->route = *route;
	if (replication)
		replication_take(loop, destination, replication);
	pending_update(loop, destination);
}

static void destination_admission_take(struct loop *loop, struct loop_destination *destination,
				       const struct loop_admission *admission)
{
	struct loop_sources *unused = admission->sources;

	if (!destination->retired) {
		unused = destination->admission.sources;
		destination->admission = *admission;
	}
	if (unused)
		object_retire(loop, &unused->object);
}

static void gates_take(struct loop *loop, struct loop_gates *gates)
{
	struct loop_gates *before = loop->shaping.gates;

	loop->shaping.gates = gates;
	ktsn_shaper_gates_set(loop->egress[EGRESS_UPLINK].shaper, &gates->gates);
	if (before)
		object_retire(loop, &before->object);
}

static void strategy_take(struct loop *loop, enum ktsn_strategy strategy)
{
	for (int i = 0; i < EGRESSES; i++)
		ktsn_shaper_strategy_set(loop->egress[i].shaper, strategy);
	loop->shaping.strategy = strategy;
	watch_reset(loop);
}

static void receiver_open(const struct loop *loop, const struct loop_receiver *receiver)
{
	struct ktsn_port *port = loop->egress[EGRESS_BRIDGE].port;

	port->ops->receiver_use(port, receiver->port_receiver);
}

static void receiver_close(struct loop *loop, struct loop_receiver *receiver)
{
	struct ktsn_port *port = loop->egress[EGRESS_BRIDGE].port;

	port->ops->receiver_leave(port, receiver->port_receiver);
	object_retire(loop, &receiver->object);
}

static void attachment_close(struct loop *loop, struct loop_attachment *attachment)
{
	held_clock_set(loop, attachment, LOOP_CLOCK_GOOD);
	object_retire(loop, &attachment->object);
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
		destination_update(loop, command->destination, &command->route, command->replication);
		break;
	case COMMAND_DESTINATION_ADMISSION:
		destination_admission_take(loop, command->destination, &command->admission);
		break;
	case COMMAND_ATTACHMENT_CLOCK:
		held_clock_set(loop, command->attachment, command->clock);
		break;
	case COMMAND_ATTACHMENT_CLOSE:
		attachment_close(loop, command->attachment);
		break;
	case COMMAND_ASSOCIATION:
		seal_association_set(loop, command->association);
		break;
	case COMMAND_ASSOCIATION_NONE:
		seal_association_remove(loop, command->address_be);
		break;
	case COMMAND_ENCRYPTION:
		seal_network_set(loop, command->index, command->encryption);
		break;
	case COMMAND_ANNOUNCE:
		announcement_take(loop, &command->route, command->payload);
		break;
	case COMMAND_RING_REFUSE:
		held_refusal_set(command->ring, command->refused);
		break;
	case COMMAND_RECEIVER_OPEN:
		receiver_open(loop, command->receiver);
		break;
	case COMMAND_RECEIVER_CLOSE:
		receiver_close(loop, command->receiver);
		break;
	case COMMAND_GATES:
		gates_take(loop, command->gates);
		break;
	case COMMAND_CLASSES:
		loop->shaping.classes = command->classes;
		break;
	case COMMAND_STRATEGY:
		strategy_take(loop, command->strategy);
		break;
	case COMMAND_LIMITS:
		quota_wake_by(loop, clock_tai_ns());
		held_limits_changed(loop);
		break;
	}
}

void commands_execute(struct loop *loop)
{
	/* A neighbour of thousands of destinations causes as many commands, and others have departures due.
	 */
	enum { COMMANDS_AT_ONCE = 8 };
	struct loop_command command;

	for (int i = 0; i < COMMANDS_AT_ONCE && commands_pop(&loop->commands, &command); i++)
		execute(loop, &command);
	commands_complete(&loop->commands);
}

/* ---- the control thread's side ---- */

/* Executes what the thread of a stopped loop has left in the queue. */
static void commands_finish(struct loop *loop)
{
	while (commands_peek(&loop->commands, 0))
		commands_execute(loop);
}

void loop_command(struct loop *loop, const struct loop_command *command)
{
	/* Before the application learns the number. */
	if (command->type == COMMAND_DESTINATION_OPEN)
		atomic_fetch_add_explicit(&command->ring->announced, 1, memory_order_relaxed);
	if (loop_stopped(loop))
		commands_finish(loop);
	while (!commands_push(&loop->commands, command)) {
		loop_kick(loop);
		usleep(100);
	}
	if (loop_stopped(loop))
		commands_finish(loop);
	else
		loop_kick(loop);
}

uint32_t loop_commands_mark(const struct loop *loop)
{
	return commands_mark(&loop->commands);
}

bool loop_commands_passed(const struct loop *loop, uint32_t mark)
{
	return commands_passed(&loop->commands, mark);
}
