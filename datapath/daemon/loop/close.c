/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows, destinations and rings end when all messages that were sent before the close have been taken.
 */
#include "close.h"

#include "alive.h"
#include "loop_state.h"
#include "retire.h"
#include "watch.h"

/* The others end in the next rounds: each is memory that is in no cache. */
enum { CLOSINGS_AT_ONCE = 32 };

void ring_end(struct loop *loop, struct loop_ring *ring)
{
	watch_end(loop, ring);
	alive_end(loop, ring);
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

void flow_end_later(struct loop_ring *ring, uint32_t index)
{
	struct loop_flow *flow = ring->flows[index];

	flow->closing_index = index;
	flow->closing_next = ring->closing_flows;
	ring->closing_flows = flow;
}

void destination_end_later(struct loop_ring *ring, uint32_t index)
{
	struct loop_destination *destination = ring->destinations[index];

	destination->closing_index = index;
	destination->closing_next = ring->closing_destinations;
	ring->closing_destinations = destination;
}

bool closings_wait(const struct loop_ring *ring)
{
	return ring->closing_destinations || ring->closing_flows;
}

void closings_end(struct loop *loop, struct loop_ring *ring)
{
	uint32_t left = CLOSINGS_AT_ONCE;
	struct loop_destination *destination;
	struct loop_flow *flow;

	for (; left && (destination = ring->closing_destinations); left--) {
		ring->closing_destinations = destination->closing_next;
		destination_end(loop, ring, destination->closing_index);
	}
	for (; left && (flow = ring->closing_flows); left--) {
		ring->closing_flows = flow->closing_next;
		flow_end(loop, ring, flow->closing_index);
	}
	if (closings_wait(ring))
		watch_ring(loop, ring);
}
