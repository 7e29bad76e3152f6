/* SPDX-License-Identifier: Apache-2.0 */
#include "heap.h"

#include <stdbool.h>

enum { CHILDREN = 4 };

static bool leaves_before(const struct ktsn_heap_entry *a, const struct ktsn_heap_entry *b)
{
	if (a->txtime_tai_ns != b->txtime_tai_ns)
		return a->txtime_tai_ns < b->txtime_tai_ns;
	return a->order < b->order;
}

/* The first to leave among the siblings from `first_child` on. */
static size_t earliest_sibling(const struct ktsn_heap *heap, size_t first_child)
{
	size_t end = first_child + CHILDREN < heap->count ? first_child + CHILDREN : heap->count;
	size_t best = first_child;

	for (size_t child = first_child + 1; child < end; child++) {
		if (leaves_before(&heap->entries[child], &heap->entries[best]))
			best = child;
	}
	return best;
}

/* A hole at the end rises, parents sinking into it, until the entry fits. */
void ktsn_heap_push(struct ktsn_heap *heap, const struct ktsn_heap_entry *entry)
{
	size_t hole = heap->count++;

	while (hole > 0) {
		size_t parent = (hole - 1) / CHILDREN;

		if (!leaves_before(entry, &heap->entries[parent]))
			break;
		heap->entries[hole] = heap->entries[parent];
		hole = parent;
	}
	heap->entries[hole] = *entry;
}

/* The hole at the top sinks, children rising into it, until the last entry fits. */
void ktsn_heap_pop(struct ktsn_heap *heap)
{
	const struct ktsn_heap_entry last = heap->entries[--heap->count];
	size_t hole = 0;

	for (size_t child = 1; child < heap->count; child = CHILDREN * hole + 1) {
		size_t best = earliest_sibling(heap, child);

		if (!leaves_before(&heap->entries[best], &last))
			break;
		heap->entries[hole] = heap->entries[best];
		hole = best;
	}
	heap->entries[hole] = last;
}
