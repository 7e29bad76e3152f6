/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which applications the control thread is to notify. The loop makes no system call for a pod.
 */
#include "notifications.h"

#include "loop_state.h"

#include <unistd.h>

void notification_push(struct loop *loop, struct loop_flow *flow, uint32_t why)
{
	struct loop_flow *top;
	uint64_t one = 1;

	/* Release: who sees why sees what is told. */
	if (atomic_fetch_or_explicit(&flow->notify, why, memory_order_release))
		return; /* it waits for the control thread already */
	top = atomic_load_explicit(&loop->notifications.first, memory_order_relaxed);
	do
		flow->notify_next = top;
	while (!atomic_compare_exchange_weak_explicit(&loop->notifications.first, &top, flow,
						      memory_order_release, memory_order_relaxed));
	if (!top)
		(void)!write(loop->notifications.fd, &one, sizeof(one));
}

void space_notify(struct loop *loop, struct loop_ring *ring)
{
	if (!ktsn_ring_space_polled(&ring->consumer))
		return;
	for (uint32_t w = 0; w < LOOP_FLOWS_PER_RING / KTSN_RING_WORD_BITS; w++) {
		uint64_t bits = ktsn_ring_space_pollers(&ring->consumer, w);

		for (; bits; bits &= bits - 1) {
			struct loop_flow *flow =
				ring->flows[w * KTSN_RING_WORD_BITS + (uint32_t)__builtin_ctzll(bits)];

			if (flow)
				notification_push(loop, flow, NOTIFY_SPACE);
		}
	}
}
