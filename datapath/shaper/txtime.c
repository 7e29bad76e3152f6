/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy `txtime`: packets leave in the order of their transmit times, none before its own.
 */
#include "heap.h"
#include "strategy.h"

/* In the caller's memory, the entries of the heap behind it. */
struct txtime {
	struct ktsn_shaper shaper;
	struct ktsn_heap heap;
	struct ktsn_heap_entry entries[];
};

static struct ktsn_heap *heap_of(struct ktsn_shaper *shaper)
{
	return &((struct txtime *)shaper)->heap;
}

static const struct ktsn_heap_entry *earliest(const struct ktsn_shaper *shaper)
{
	return ktsn_heap_first(&((const struct txtime *)shaper)->heap);
}

static int txtime_enqueue(struct ktsn_shaper *shaper, struct ktsn_shaper_packet *packet, int64_t now_tai_ns)
{
	const struct ktsn_heap_entry entry = {packet->txtime_tai_ns, packet->order, packet};

	(void)now_tai_ns; /* late packets are due at once, which the order gives already */
	ktsn_heap_push(heap_of(shaper), &entry);
	return 0;
}

static int64_t txtime_next(const struct ktsn_shaper *shaper, int64_t now_tai_ns)
{
	const struct ktsn_heap_entry *entry = earliest(shaper);

	if (!entry)
		return KTSN_SHAPER_NEVER;
	return entry->txtime_tai_ns > now_tai_ns ? entry->txtime_tai_ns : now_tai_ns;
}

static struct ktsn_shaper_packet *txtime_dequeue(struct ktsn_shaper *shaper, int64_t now_tai_ns)
{
	const struct ktsn_heap_entry *entry = earliest(shaper);
	struct ktsn_shaper_packet *packet;

	if (!entry || entry->txtime_tai_ns > now_tai_ns)
		return NULL;
	packet = entry->packet;
	ktsn_heap_pop(heap_of(shaper));
	return packet;
}

static const struct ktsn_shaper_ops txtime_ops = {
	.name = "txtime",
	.enqueue = txtime_enqueue,
	.next = txtime_next,
	.dequeue = txtime_dequeue,
};

size_t ktsn_shaper_txtime_bytes(uint32_t capacity)
{
	return sizeof(struct txtime) + capacity * sizeof(struct ktsn_heap_entry);
}

struct ktsn_shaper *ktsn_shaper_txtime_init(void *memory)
{
	struct txtime *txtime = memory;

	txtime->shaper.ops = &txtime_ops;
	txtime->heap = (struct ktsn_heap){.entries = txtime->entries};
	return &txtime->shaper;
}
