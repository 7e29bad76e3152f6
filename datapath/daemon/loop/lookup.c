/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the numbers in a slot stand for. The application writes them, so each is checked.
 */
#include "lookup.h"

#include "loop_state.h"
#include "round.h"

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
static struct loop_destination *destination_announced(struct loop *loop, const struct loop_ring *ring,
						      uint32_t flow_index, uint32_t index)
{
	const struct loop_command *command;

	/* A message may name what never was, and the commands be many. */
	if (!atomic_load_explicit(&ring->announced, memory_order_relaxed))
		return NULL;
	/* It may take as long as TAKE_AT_ONCE messages: after this one the clock is looked at. */
	loop->round.taken |= TAKE_AT_ONCE - 1;
	for (uint32_t i = 0; (command = commands_peek(&loop->commands, i)); i++)
		if (command->type == COMMAND_DESTINATION_OPEN && command->ring == ring &&
		    command->index == index &&
		    flow_announced(loop, ring, flow_index, command->destination->flow))
			return command->destination;
	return NULL;
}

/* A VLAN tag may come on top. */
static uint32_t payload_max_bytes(const struct loop_destination *destination,
				  const struct ktsn_ring_taken *taken)
{
	return destination->flow->frames && ktsn_frame_is_tagged(taken->ethertype_be)
		       ? destination->route.tagged_max_bytes
		       : destination->route.payload_max_bytes;
}

struct loop_destination *destination_find(struct loop *loop, const struct loop_ring *ring,
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
	return taken->payload_bytes <= payload_max_bytes(destination, taken) ? destination : NULL;
}

/* The socket that a slot names, if the process has one of that number. */
struct loop_flow *flow_find(const struct loop_ring *ring, const struct ktsn_ring_taken *taken)
{
	return taken->flow < LOOP_FLOWS_PER_RING ? ring->flows[taken->flow] : NULL;
}
