/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling applications: of messages that were dropped (SOF_TXTIME_REPORT_ERRORS), and of space to send more. What
 * is told stands in the ring; the control thread wakes who waits for it (wakes.c), since that takes system calls.
 */
#include "loop_state.h"

#include <linux/errqueue.h>
#include <unistd.h>

/* Those whose time could have been met, had all gone well, were missed; the others asked for what cannot be. */
static uint8_t code_of(const struct loop *loop, const _Atomic uint64_t *reason)
{
	const struct counters *counters = &loop->counters;

	if (reason == &counters->drop_txtime || reason == &counters->drop_horizon ||
	    reason == &counters->drop_max_sdu || reason == &counters->drop_invalid)
		return SO_EE_CODE_TXTIME_INVALID_PARAM;
	return SO_EE_CODE_TXTIME_MISSED;
}

void notification_push(struct loop *loop, struct loop_flow *flow, uint32_t why)
{
	struct loop_flow *top;
	uint64_t one = 1;

	/* Release: who sees why sees what is told. */
	if (atomic_fetch_or_explicit(&flow->notify, why, memory_order_release))
		return; /* it waits for the control thread already */
	top = atomic_load_explicit(&loop->notifications, memory_order_relaxed);
	do
		flow->notify_next = top;
	while (!atomic_compare_exchange_weak_explicit(&loop->notifications, &top, flow, memory_order_release,
						      memory_order_relaxed));
	if (!top)
		(void)!write(loop->notifications_fd, &one, sizeof(one));
}

struct loop_flow *loop_notifications(struct loop *loop)
{
	uint64_t count;

	/* Cleared first: what is pushed after the look makes it readable again. */
	(void)!read(loop->notifications_fd, &count, sizeof(count));
	return atomic_exchange_explicit(&loop->notifications, NULL, memory_order_acquire);
}

int loop_notifications_fd(const struct loop *loop)
{
	return loop->notifications_fd;
}

/* The headers are built where the application sees them: they go nowhere from there. */
static int headers_build(struct loop_ring *ring, const struct loop_route *route, uint32_t slot,
			 uint32_t payload_bytes)
{
	size_t bytes = ktsn_frame_header_bytes(&route->path, NULL);

	if (bytes > KTSN_RING_HEADROOM_BYTES)
		return -1;
	return ktsn_frame_build(ktsn_ring_taken_headers(&ring->consumer, slot, bytes), bytes + payload_bytes,
				&route->path, NULL, payload_bytes);
}

bool report_make(struct loop *loop, struct loop_flow *flow, const struct loop_route *route, uint32_t slot,
		 uint32_t payload_bytes, const _Atomic uint64_t *reason)
{
	struct loop_ring *ring = flow->ring;
	int headers_bytes;

	if (!flow->report || flow->closed || ring->closed)
		return false;
	if (!ktsn_ring_report_room(&ring->consumer)) {
		counter_add(&loop->counters.reports_lost, 1);
		return false;
	}
	headers_bytes = headers_build(ring, route, slot, payload_bytes);
	if (headers_bytes < 0)
		return false;
	ktsn_ring_report(&ring->consumer, slot, code_of(loop, reason), (size_t)headers_bytes);
	counter_add(&loop->counters.reports, 1);
	notification_push(loop, flow, NOTIFY_REPORT);
	return true;
}

void space_announce(struct loop *loop, struct loop_ring *ring)
{
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
