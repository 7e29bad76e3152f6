/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A priority queue of packets by (transmit time, order), in memory that its user provides. Private to
 * this folder; one thread at a time.
 *
 * A heap with four children per node: half the levels of a binary one, and the siblings that a pop
 * compares lie side by side. The entries repeat the key so that ordering never touches the packets.
 */
#ifndef KTSN_SHAPER_HEAP_H
#define KTSN_SHAPER_HEAP_H

#include "shaper.h"

struct ktsn_heap_entry {
	int64_t txtime_tai_ns;
	uint64_t order;
	struct ktsn_shaper_packet *packet;
};

/* Empty when zeroed but for `entries`. */
struct ktsn_heap {
	struct ktsn_heap_entry *entries;
	size_t count;
};

/* The entry that leaves first, or NULL when empty. Valid until the next push or pop. */
static inline const struct ktsn_heap_entry *ktsn_heap_first(const struct ktsn_heap *heap)
{
	return heap->count > 0 ? &heap->entries[0] : NULL;
}

/* There must be room behind the last entry. */
void ktsn_heap_push(struct ktsn_heap *heap, const struct ktsn_heap_entry *entry);

/* Removes the first entry; there must be one. */
void ktsn_heap_pop(struct ktsn_heap *heap);

#endif
