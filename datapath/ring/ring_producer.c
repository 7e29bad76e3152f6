/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_producer.h"

#include <errno.h>

static int layout_check(const struct ktsn_ring_header *header, size_t bytes)
{
	if (bytes < sizeof(*header) || header->magic != KTSN_RING_MAGIC)
		return -EPROTO;
	if (header->version != KTSN_RING_VERSION)
		return -EPROTONOSUPPORT;
	if (header->slot_count == 0 || header->slot_count > KTSN_RING_SLOTS_MAX ||
	    header->slot_count % KTSN_RING_WORD_BITS != 0)
		return -EBADMSG;
	if (header->slot_bytes <= KTSN_RING_SLOT_HEADER_BYTES || header->slots_offset < sizeof(*header))
		return -EBADMSG;
	if (header->slots_offset + (uint64_t)header->slot_count * header->slot_bytes > bytes)
		return -EBADMSG;
	return 0;
}

int ktsn_ring_producer_init(struct ktsn_ring_producer *ring, void *memory, size_t bytes)
{
	struct ktsn_ring_header *header = memory;
	int err = layout_check(header, bytes);

	if (err)
		return err;
	ring->header = header;
	ring->slot_count = header->slot_count;
	ring->slot_bytes = header->slot_bytes;
	ring->slots_offset = header->slots_offset;
	ring->payload_capacity_bytes = header->slot_bytes - KTSN_RING_SLOT_HEADER_BYTES;
	return 0;
}

static struct ktsn_ring_slot *slot_at(struct ktsn_ring_producer *ring, uint32_t slot)
{
	return ktsn_ring_slot_at(ring->header, ring->slots_offset, ring->slot_bytes, slot);
}

/* Claims a free slot for the caller. */
static bool claim_slot(struct ktsn_ring_producer *ring, uint32_t slot)
{
	uint32_t state = KTSN_SLOT_FREE;

	/* Acquire pairs with the release of FREE in ktsn_ring_release(): the consumer is done with it. */
	return atomic_compare_exchange_strong_explicit(&slot_at(ring, slot)->state, &state, KTSN_SLOT_WRITING,
						       memory_order_acquire, memory_order_relaxed);
}

/* Claims a slot whose bit is set in word w of `free`; false when other threads claimed all of them first. */
static bool claim_in_word(struct ktsn_ring_producer *ring, uint32_t w, uint32_t *slot)
{
	_Atomic uint64_t *word = &ring->header->free[w];
	uint64_t bits = atomic_load_explicit(word, memory_order_relaxed);

	while (bits) {
		uint64_t lowest = bits & -bits;
		uint64_t before = atomic_fetch_and_explicit(word, ~lowest, memory_order_acquire);

		*slot = w * KTSN_RING_WORD_BITS + (uint32_t)__builtin_ctzll(lowest);
		if ((before & lowest) && claim_slot(ring, *slot))
			return true;
		bits = before & ~lowest;
	}
	return false;
}

int ktsn_ring_claim(struct ktsn_ring_producer *ring, uint32_t *slot)
{
	uint32_t words = ring->slot_count / KTSN_RING_WORD_BITS;

	for (uint32_t w = 0; w < words; w++)
		if (claim_in_word(ring, w, slot))
			return 0;
	return -EAGAIN;
}

bool ktsn_ring_has_space(const struct ktsn_ring_producer *ring, uint32_t slots)
{
	uint32_t free = 0;

	for (uint32_t w = 0; w < ring->slot_count / KTSN_RING_WORD_BITS && free < slots; w++) {
		uint64_t bits = atomic_load_explicit(&ring->header->free[w], memory_order_seq_cst);

		for (; bits && free < slots; bits &= bits - 1)
			free++;
	}
	return free >= slots;
}

void ktsn_ring_unclaim(struct ktsn_ring_producer *ring, uint32_t slot)
{
	atomic_store_explicit(&slot_at(ring, slot)->state, KTSN_SLOT_FREE, memory_order_release);
	/* As in ktsn_ring_release(). */
	atomic_fetch_or_explicit(&ring->header->free[ktsn_ring_word(slot)], ktsn_ring_bit(slot),
				 memory_order_seq_cst);
}

uint64_t ktsn_ring_released_bytes(const struct ktsn_ring_producer *ring, uint32_t flow)
{
	return flow < KTSN_RING_FLOWS
		       ? atomic_load_explicit(&ring->header->released_bytes[flow], memory_order_acquire)
		       : 0;
}

void ktsn_ring_space_poll(struct ktsn_ring_producer *ring, uint32_t flow)
{
	if (flow >= KTSN_RING_FLOWS)
		return;
	atomic_fetch_or_explicit(&ring->header->space_polled[ktsn_ring_word(flow)], ktsn_ring_bit(flow),
				 memory_order_seq_cst);
	atomic_store_explicit(&ring->header->space_pollers, 1, memory_order_seq_cst);
	atomic_thread_fence(memory_order_seq_cst);
}

uint8_t *ktsn_ring_payload(struct ktsn_ring_producer *ring, uint32_t slot)
{
	return slot_at(ring, slot)->payload;
}

void ktsn_ring_publish(struct ktsn_ring_producer *ring, uint32_t slot,
		       const struct ktsn_ring_message *message)
{
	struct ktsn_ring_header *header = ring->header;
	struct ktsn_ring_slot *shared = slot_at(ring, slot);
	uint32_t word = ktsn_ring_word(slot);

	shared->flow = message->flow;
	shared->destination = message->destination;
	shared->payload_bytes = message->payload_bytes;
	shared->txtime_ns = message->txtime_ns;
	shared->called_tai_ns = message->called_tai_ns;
	shared->ethertype_be = message->ethertype_be;
	shared->priority = message->priority;
	shared->stamps = message->stamps;
	shared->stamp_number = message->stamp_number;
	/* Release pairs with the acquire in ktsn_ring_recover(): a thread that sees the new number sees the
	 * slot as claimed, or in a later state. */
	shared->sequence = atomic_fetch_add_explicit(&header->next_sequence, 1, memory_order_release);
	/* Release pairs with the acquire in ktsn_ring_take(): all of the slot is visible before READY. */
	atomic_store_explicit(&shared->state, KTSN_SLOT_READY, memory_order_release);
	atomic_fetch_or_explicit(&header->ready[word], ktsn_ring_bit(slot), memory_order_release);
	/* Sequentially consistent with the load in doorbell_due: either the consumer that goes to sleep sees
	 * this bit, or this producer sees that it must ring. */
	atomic_fetch_or_explicit(&header->ready_summary, UINT64_C(1) << word, memory_order_seq_cst);
}

bool ktsn_ring_traced(const struct ktsn_ring_producer *ring)
{
	return atomic_load_explicit(&ring->header->trace, memory_order_relaxed) != 0;
}

bool ktsn_ring_doorbell_due(struct ktsn_ring_producer *ring, enum ktsn_clock clock, int64_t txtime_ns)
{
	int64_t before_ns =
		atomic_load_explicit(&ring->header->doorbell_before_ns[clock], memory_order_seq_cst);

	return before_ns == KTSN_DOORBELL_ALWAYS || txtime_ns < before_ns;
}

/* The number of the flow's report in the slot; UINT64_MAX when there is none. */
static uint64_t report_number(struct ktsn_ring_producer *ring, uint32_t slot, uint32_t flow)
{
	const struct ktsn_ring_slot *shared = slot_at(ring, slot);

	/* Acquire pairs with the release of REPORTED in ktsn_ring_report(). */
	if (atomic_load_explicit(&shared->state, memory_order_acquire) != KTSN_SLOT_REPORTED ||
	    shared->flow != flow)
		return UINT64_MAX;
	return shared->sequence;
}

/* Finds the oldest report of the flow; false when it has none. */
static bool report_oldest(struct ktsn_ring_producer *ring, uint32_t flow, uint32_t *oldest)
{
	uint64_t oldest_number = UINT64_MAX;

	for (uint32_t w = 0; w < ring->slot_count / KTSN_RING_WORD_BITS; w++) {
		uint64_t bits = atomic_load_explicit(&ring->header->reported[w], memory_order_acquire);

		for (; bits; bits &= bits - 1) {
			uint32_t slot = w * KTSN_RING_WORD_BITS + (uint32_t)__builtin_ctzll(bits);
			uint64_t number = report_number(ring, slot, flow);

			if (number < oldest_number) {
				oldest_number = number;
				*oldest = slot;
			}
		}
	}
	return oldest_number != UINT64_MAX;
}

bool ktsn_ring_report_waits(struct ktsn_ring_producer *ring, uint32_t flow)
{
	uint32_t slot;

	return report_oldest(ring, flow, &slot);
}

static void report_describe(struct ktsn_ring_producer *ring, uint32_t slot, struct ktsn_ring_report *report)
{
	const struct ktsn_ring_slot *shared = slot_at(ring, slot);
	size_t headers_bytes = shared->report_headers_bytes;
	size_t payload_bytes = shared->payload_bytes;

	if (headers_bytes > KTSN_RING_HEADROOM_BYTES)
		headers_bytes = KTSN_RING_HEADROOM_BYTES;
	if (payload_bytes > ring->payload_capacity_bytes)
		payload_bytes = ring->payload_capacity_bytes;
	report->slot = slot;
	report->txtime_ns = shared->txtime_ns;
	report->code = shared->report_code;
	report->stamps = shared->stamps;
	report->stamp_number = shared->stamp_number;
	report->called_tai_ns = shared->called_tai_ns;
	report->departed_tai_ns = shared->departed_tai_ns;
	report->bytes = shared->payload - headers_bytes;
	report->bytes_count = headers_bytes + payload_bytes;
}

/* Claims the report in that slot for the caller, unless another thread was faster. The slot may hold another
 * flow's report by then: it may have been freed and reported again. */
static bool report_claim(struct ktsn_ring_producer *ring, uint32_t slot, uint32_t flow)
{
	struct ktsn_ring_slot *shared = slot_at(ring, slot);
	uint32_t state = KTSN_SLOT_REPORTED;

	if (!atomic_compare_exchange_strong_explicit(&shared->state, &state, KTSN_SLOT_WRITING,
						     memory_order_acquire, memory_order_relaxed))
		return false;
	if (shared->flow == flow)
		return true;
	atomic_store_explicit(&shared->state, KTSN_SLOT_REPORTED, memory_order_release);
	return false;
}

int ktsn_ring_report_take(struct ktsn_ring_producer *ring, uint32_t flow, struct ktsn_ring_report *report)
{
	uint32_t slot;

	/* If another thread claims the oldest report first, tries the next. */
	do
		if (!report_oldest(ring, flow, &slot))
			return -EAGAIN;
	while (!report_claim(ring, slot, flow));
	atomic_fetch_and_explicit(&ring->header->reported[ktsn_ring_word(slot)], ~ktsn_ring_bit(slot),
				  memory_order_relaxed);
	report_describe(ring, slot, report);
	return 0;
}

void ktsn_ring_report_keep(struct ktsn_ring_producer *ring, uint32_t slot, uint8_t stamps)
{
	struct ktsn_ring_slot *shared = slot_at(ring, slot);

	shared->stamps = stamps;
	/* Release pairs with the acquire in report_claim(), as in ktsn_ring_report(). */
	atomic_store_explicit(&shared->state, KTSN_SLOT_REPORTED, memory_order_release);
	atomic_fetch_or_explicit(&ring->header->reported[ktsn_ring_word(slot)], ktsn_ring_bit(slot),
				 memory_order_release);
}

void ktsn_ring_report_done(struct ktsn_ring_producer *ring, uint32_t slot)
{
	/* Counted before the slot can hold another report. */
	atomic_fetch_add_explicit(&ring->header->reports_read, 1, memory_order_relaxed);
	ktsn_ring_unclaim(ring, slot);
}
