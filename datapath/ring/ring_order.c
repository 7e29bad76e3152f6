/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_order.h"

#include <string.h>

void ktsn_ring_order_init(struct ktsn_ring_order *order, uint32_t slot_count)
{
	memset(order, 0, offsetof(struct ktsn_ring_order, in_order));
	order->capacity = slot_count;
	/* So that the loop takes no page faults. */
	memset(order->in_order, 0, slot_count * sizeof(order->in_order[0]));
	memset(order->heap, 0, slot_count * sizeof(order->heap[0]));
}

void ktsn_ring_order_heap_add(struct ktsn_ring_order *order, uint64_t key)
{
	uint32_t at = order->heap_count++;

	for (; at && key < order->heap[(at - 1) / 2]; at = (at - 1) / 2)
		order->heap[at] = order->heap[(at - 1) / 2];
	order->heap[at] = key;
}

void ktsn_ring_order_heap_drop(struct ktsn_ring_order *order)
{
	uint64_t *heap = order->heap, last = heap[--order->heap_count];
	uint32_t at = 0, child;

	while ((child = 2 * at + 1) < order->heap_count) {
		child += child + 1 < order->heap_count && heap[child + 1] < heap[child];
		if (last <= heap[child])
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = last;
}
