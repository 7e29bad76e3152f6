/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows, destinations and rings end when all messages that were sent before the close have been taken.
 */
#include "close.h"

#include "loop_state.h"
#include "retire.h"
#include "watch.h"

void ring_end(struct loop *loop, struct loop_ring *ring)
{
	watch_end(loop, ring);
	ring->closed = true;
	ring_retire_if_done(loop, ring);
}

void flow_end(struct loop *loop, struct loop_ring *ring, uint32_t index)
{
	struct loop_flow *flow = ring->flows[index];

	ring->flows[index] = NULL;
	flow->closed = true;
	if (flow->report)
		ktsn_ring_reports_discard(&ring->consumer, index);
	flow_retire_if_done(loop, flow);
}

void destination_end(struct loop *loop, struct loop_ring *ring, uint32_t index)
{
	struct loop_destination *destination = ring->destinations[index];

	ring->destinations[index] = NULL;
	destination->closed = true;
	destination_retire_if_done(loop, destination);
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
