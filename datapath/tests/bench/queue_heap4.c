/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A heap with four children per node: half the levels of a binary one, and the siblings that a pop compares
 * lie side by side. The entries repeat the key so that ordering never touches the packets.
 */
#include "bench.h"
#include "queues.h"

#include <stdlib.h>

enum { CHILDREN = 4 };

struct entry {
	int64_t txtime_tai_ns;
	uint64_t order;
	struct ktsn_shaper_packet *packet;
};

struct heap {
	uint32_t count;
	struct entry entries[];
};

static bool leaves_before(const struct entry *a, const struct entry *b)
{
	if (a->txtime_tai_ns != b->txtime_tai_ns)
		return a->txtime_tai_ns < b->txtime_tai_ns;
	return a->order < b->order;
}

static void *heap_create(uint32_t packets)
{
	return bench_alloc(sizeof(struct heap) + packets * sizeof(struct entry));
}

/* A hole at the end rises, parents sinking into it, until the entry fits. */
static void heap_push(void *queue, struct ktsn_shaper_packet *packet, int64_t now_tai_ns)
{
	struct heap *heap = queue;
	const struct entry entry = {packet->txtime_tai_ns, packet->order, packet};
	uint32_t hole = heap->count++;

	(void)now_tai_ns;
	while (hole > 0) {
		uint32_t parent = (hole - 1) / CHILDREN;

		if (!leaves_before(&entry, &heap->entries[parent]))
			break;
		heap->entries[hole] = heap->entries[parent];
		hole = parent;
	}
	heap->entries[hole] = entry;
}

static uint32_t earliest_sibling(const struct heap *heap, uint32_t first_child)
{
	uint32_t end = first_child + CHILDREN < heap->count ? first_child + CHILDREN : heap->count;
	uint32_t best = first_child;

	for (uint32_t child = first_child + 1; child < end; child++)
		if (leaves_before(&heap->entries[child], &heap->entries[best]))
			best = child;
	return best;
}

static struct ktsn_shaper_packet *heap_first(const void *queue)
{
	const struct heap *heap = queue;

	return heap->count ? heap->entries[0].packet : NULL;
}

/* The hole at the top sinks, children rising into it, until the last entry fits. */
static struct ktsn_shaper_packet *heap_pop(void *queue)
{
	struct heap *heap = queue;
	struct ktsn_shaper_packet *first = heap->entries[0].packet;
	const struct entry last = heap->entries[--heap->count];
	uint32_t hole = 0;

	for (uint32_t child = 1; child < heap->count; child = CHILDREN * hole + 1) {
		uint32_t best = earliest_sibling(heap, child);

		if (!leaves_before(&heap->entries[best], &last))
			break;
		heap->entries[hole] = heap->entries[best];
		hole = best;
	}
	heap->entries[hole] = last;
	return first;
}

const struct bench_queue bench_queue_heap4 = {
	.name = "4-ary heap",
	.create = heap_create,
	.push = heap_push,
	.first = heap_first,
	.pop = heap_pop,
	.destroy = free,
};
