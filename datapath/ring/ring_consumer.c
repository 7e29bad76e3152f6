/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_consumer.h"

#include <errno.h>
#include <string.h>

void ktsn_ring_consumer_init(struct ktsn_ring_consumer *ring, void *memory, uint32_t slot_count,
			     uint32_t slot_bytes)
{
	memset(ring, 0, sizeof(*ring));
	ring->header = memory;
	ring->slot_count = slot_count;
	ring->slot_bytes = slot_bytes;
	ring->slots_offset = sizeof(struct ktsn_ring_header);
	ring->payload_capacity_bytes = slot_bytes - KTSN_RING_SLOT_HEADER_BYTES;
}

static struct ktsn_ring_slot *slot_at(const struct ktsn_ring_consumer *ring, uint32_t slot)
{
	return ktsn_ring_slot_at(ring->header, ring->slots_offset, ring->slot_bytes, slot);
}

bool ktsn_ring_ready(const struct ktsn_ring_consumer *ring)
{
	return atomic_load_explicit(&ring->header->ready_summary, memory_order_seq_cst) != 0 ||
	       ring->collected_summary != 0;
}

/* Fetches all ready bits of the memory; bits beyond the ring or of slots already held are lies. */
static void collect(struct ktsn_ring_consumer *ring)
{
	struct ktsn_ring_header *header = ring->header;
	uint32_t words = ring->slot_count / KTSN_RING_WORD_BITS;
	uint64_t summary;

	if (atomic_load_explicit(&header->ready_summary, memory_order_relaxed) == 0)
		return;
	summary = atomic_exchange_explicit(&header->ready_summary, 0, memory_order_seq_cst);
	for (uint32_t w = 0; w < words; w++) {
		if (!(summary & (UINT64_C(1) << w)))
			continue;
		/* Acquire pairs with the release of the bit in ktsn_ring_publish(). */
		ring->collected[w] |= atomic_exchange_explicit(&header->ready[w], 0, memory_order_acquire) &
				      ~ring->taken[w];
		if (ring->collected[w])
			ring->collected_summary |= UINT64_C(1) << w;
	}
}

static uint32_t collected_pop(struct ktsn_ring_consumer *ring)
{
	uint32_t w = (uint32_t)__builtin_ctzll(ring->collected_summary);
	uint32_t bit = (uint32_t)__builtin_ctzll(ring->collected[w]);

	ring->collected[w] &= ring->collected[w] - 1;
	if (!ring->collected[w])
		ring->collected_summary &= ~(UINT64_C(1) << w);
	return w * KTSN_RING_WORD_BITS + bit;
}

static void mark_taken(struct ktsn_ring_consumer *ring, uint32_t slot)
{
	ring->taken[slot / KTSN_RING_WORD_BITS] |= UINT64_C(1) << (slot % KTSN_RING_WORD_BITS);
	ring->held++;
}

int ktsn_ring_take(struct ktsn_ring_consumer *ring, struct ktsn_ring_taken *taken)
{
	struct ktsn_ring_slot *shared;
	uint32_t state;

	if (!ring->collected_summary)
		collect(ring);
	if (!ring->collected_summary)
		return 0;

	taken->slot = collected_pop(ring);
	mark_taken(ring, taken->slot);
	shared = slot_at(ring, taken->slot);
	/* Acquire pairs with the release of READY in ktsn_ring_publish(). */
	state = atomic_load_explicit(&shared->state, memory_order_acquire);
	memcpy(&taken->flow, &shared->flow, sizeof(taken->flow));
	memcpy(&taken->destination, &shared->destination, sizeof(taken->destination));
	memcpy(&taken->payload_bytes, &shared->payload_bytes, sizeof(taken->payload_bytes));
	memcpy(&taken->txtime_ns, &shared->txtime_ns, sizeof(taken->txtime_ns));
	memcpy(&taken->sequence, &shared->sequence, sizeof(taken->sequence));
	/* The compiler must not read the slot again for the checks that follow. */
	atomic_signal_fence(memory_order_seq_cst);
	if (state != KTSN_SLOT_READY || taken->payload_bytes > ring->payload_capacity_bytes)
		return -EBADMSG;
	return 1;
}

void ktsn_ring_untake(struct ktsn_ring_consumer *ring, uint32_t slot)
{
	uint32_t w = slot / KTSN_RING_WORD_BITS;
	uint64_t bit = UINT64_C(1) << (slot % KTSN_RING_WORD_BITS);

	ring->taken[w] &= ~bit;
	ring->held--;
	ring->collected[w] |= bit;
	ring->collected_summary |= UINT64_C(1) << w;
}

const uint8_t *ktsn_ring_taken_payload(const struct ktsn_ring_consumer *ring, uint32_t slot)
{
	return slot_at(ring, slot)->payload;
}

void ktsn_ring_depart(struct ktsn_ring_consumer *ring, uint32_t slot)
{
	atomic_store_explicit(&slot_at(ring, slot)->state, KTSN_SLOT_DEPARTING, memory_order_release);
}

void ktsn_ring_undepart(struct ktsn_ring_consumer *ring, uint32_t slot)
{
	atomic_store_explicit(&slot_at(ring, slot)->state, KTSN_SLOT_READY, memory_order_release);
}

void ktsn_ring_release(struct ktsn_ring_consumer *ring, uint32_t slot)
{
	uint32_t w = slot / KTSN_RING_WORD_BITS;
	uint64_t bit = UINT64_C(1) << (slot % KTSN_RING_WORD_BITS);

	ring->taken[w] &= ~bit;
	ring->held--;
	atomic_store_explicit(&slot_at(ring, slot)->state, KTSN_SLOT_FREE, memory_order_relaxed);
	/* Release pairs with the acquire in claim_in_word(). Sequentially consistent with the load of
	 * space_waiters: a producer that announces itself after that load finds this bit. */
	atomic_fetch_or_explicit(&ring->header->free[w], bit, memory_order_seq_cst);
}

bool ktsn_ring_space_wake_due(struct ktsn_ring_consumer *ring)
{
	if (atomic_load_explicit(&ring->header->space_waiters, memory_order_seq_cst) == 0)
		return false;
	atomic_fetch_add_explicit(&ring->header->space_sequence, 1, memory_order_seq_cst);
	return true;
}

_Atomic uint32_t *ktsn_ring_consumer_space_futex(struct ktsn_ring_consumer *ring)
{
	return &ring->header->space_sequence;
}

void ktsn_ring_doorbell_set(struct ktsn_ring_consumer *ring, const int64_t before_ns[KTSN_CLOCKS])
{
	for (int clock = 0; clock < KTSN_CLOCKS; clock++)
		atomic_store_explicit(&ring->header->doorbell_before_ns[clock], before_ns[clock],
				      memory_order_seq_cst);
}
