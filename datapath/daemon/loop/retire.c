/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of objects that the loop is done with. The control thread frees them when no command can name
 * them.
 */
#include "retire.h"

#include "loop_state.h"
#include "quotas.h"

#include <unistd.h>

void object_retire(struct loop *loop, struct loop_object *object)
{
	struct loop_object *top = atomic_load_explicit(&loop->retired.first, memory_order_relaxed);
	uint64_t one = 1;

	do
		object->next = top;
	while (!atomic_compare_exchange_weak_explicit(&loop->retired.first, &top, object,
						      memory_order_release, memory_order_relaxed));
	/* It is taken after this was read (loop_retired): while there are others in it, that is still to
	 * come. */
	if (!top)
		(void)!write(loop->retired.fd, &one, sizeof(one));
}

/* Frames of the flow may be withdrawn after it is freed. */
static void withdrawals_forget(struct loop *loop, const struct loop_flow *flow)
{
	for (uint32_t i = 0; i < loop->withdrawals.size; i++)
		if (loop->withdrawals.frames[i].flow == flow)
			loop->withdrawals.frames[i].flow = NULL;
}

void flow_retire_if_done(struct loop *loop, struct loop_flow *flow)
{
	if (!flow->closed || flow->packets || flow->expectation.queued || flow->retired)
		return;
	flow->retired = true;
	withdrawals_forget(loop, flow);
	object_retire(loop, &flow->object);
}

void destination_retire_if_done(struct loop *loop, struct loop_destination *destination)
{
	if (!destination->closed || destination->packets || destination->retired)
		return;
	destination->retired = true;
	object_retire(loop, &destination->object);
}

void ring_retire_if_done(struct loop *loop, struct loop_ring *ring)
{
	if (!ring->closed || ring->consumer.held || ring->expectations || ring->busy || ring->retired)
		return;
	ring->retired = true;
	/* One that was handed back and closed before it was resumed was never among those of its pod. */
	if (ring->opened)
		quota_ring_retired(loop, ring->quota);
	object_retire(loop, &ring->object);
}

void replication_retire_if_done(struct loop *loop, struct loop_replication *copies)
{
	if (copies->replaced && !copies->messages)
		object_retire(loop, &copies->object);
}
