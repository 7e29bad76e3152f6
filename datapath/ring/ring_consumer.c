/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_consumer.h"

#include <errno.h>
#include <string.h>

void ktsn_ring_consumer_init(struct ktsn_ring_consumer *ring, void *memory, uint32_t slot_count,
			     uint32_t slot_bytes)
{
	memset(ring, 0, offsetof(struct ktsn_ring_consumer, order));
	ktsn_ring_order_init(&ring->order, slot_count);
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

static void collect_slot(struct ktsn_ring_consumer *ring, uint32_t slot)
{
	ring->collected[ktsn_ring_word(slot)] |= ktsn_ring_bit(slot);
	ring->collected_summary |= UINT64_C(1) << ktsn_ring_word(slot);
}

static void show_free(struct ktsn_ring_consumer *ring, uint32_t slot)
{
	/* Sequentially consistent with the load of space_pollers: a socket that announces itself after
	 * that load finds this bit. */
	atomic_fetch_or_explicit(&ring->header->free[ktsn_ring_word(slot)], ktsn_ring_bit(slot),
				 memory_order_seq_cst);
}

/* Returns the charge of a message that is no longer pending. The flow number comes from the application, and
 * a wrong one harms only the application. */
static void charge_return(struct ktsn_ring_consumer *ring, uint32_t slot)
{
	const struct ktsn_ring_slot *shared = slot_at(ring, slot);
	uint32_t flow, payload_bytes;
	_Atomic uint64_t *released;

	memcpy(&flow, &shared->flow, sizeof(flow));
	memcpy(&payload_bytes, &shared->payload_bytes, sizeof(payload_bytes));
	if (flow >= KTSN_RING_FLOWS)
		return;
	released = &ring->header->released_bytes[flow];
	/* ktsnd's loop thread is the only writer. */
	atomic_store_explicit(released,
			      atomic_load_explicit(released, memory_order_relaxed) +
				      ktsn_ring_charge_bytes(payload_bytes),
			      memory_order_release);
}

static void show_reported(struct ktsn_ring_consumer *ring, uint32_t slot)
{
	/* Release pairs with the acquire of the bit in ktsn_ring_report_take(). Sequentially consistent as in
	 * show_free(), because the message no longer takes space in its socket's send buffer. */
	atomic_fetch_or_explicit(&ring->header->reported[ktsn_ring_word(slot)], ktsn_ring_bit(slot),
				 memory_order_seq_cst);
}

static_assert(KTSN_RING_FLOWS <= UINT8_MAX + 1, "numbers of flows fit into reported_flow");

/* The flow number comes from the application and is read once. */
static void note_reported(struct ktsn_ring_consumer *ring, uint32_t slot)
{
	uint32_t flow;

	memcpy(&flow, &slot_at(ring, slot)->flow, sizeof(flow));
	ring->reported[ktsn_ring_word(slot)] |= ktsn_ring_bit(slot);
	ring->reported_flow[slot] = (uint8_t)flow;
}

void ktsn_ring_touch(const struct ktsn_ring_consumer *ring)
{
	for (uint32_t slot = 0; slot < ring->slot_count; slot++)
		(void)atomic_load_explicit(&slot_at(ring, slot)->state, memory_order_relaxed);
}

/* Collects a message that was ready before ktsnd had the ring. Returns 1 if its sequence number was given
 * before that, too. */
static uint32_t recover_ready(struct ktsn_ring_consumer *ring, uint32_t slot)
{
	uint64_t sequence;

	memcpy(&sequence, &slot_at(ring, slot)->sequence, sizeof(sequence));
	collect_slot(ring, slot);
	ring->recovered[ktsn_ring_word(slot)] |= ktsn_ring_bit(slot);
	return (sequence & KTSN_RING_ORDER_SEQUENCES) < ring->settled_sequence;
}

uint32_t ktsn_ring_recover(struct ktsn_ring_consumer *ring)
{
	static const int64_t always[KTSN_CLOCKS] = {KTSN_DOORBELL_ALWAYS, KTSN_DOORBELL_ALWAYS,
						    KTSN_DOORBELL_ALWAYS};
	uint32_t departing = 0, reported = 0, missing = 0;

	/* A number below this one belongs to a slot that is READY or WRITING, or its message is gone. Acquire
	 * pairs with the release in ktsn_ring_publish(). */
	ring->settled_sequence = atomic_load_explicit(&ring->header->next_sequence, memory_order_acquire) &
				 KTSN_RING_ORDER_SEQUENCES;
	/* The other ktsnd set the thresholds and the trace. */
	ktsn_ring_doorbell_set(ring, always);
	ktsn_ring_trace_set(ring, false);
	for (uint32_t slot = 0; slot < ring->slot_count; slot++) {
		_Atomic uint32_t *state = &slot_at(ring, slot)->state;

		switch (atomic_load_explicit(state, memory_order_acquire)) {
		case KTSN_SLOT_READY:
			missing += recover_ready(ring, slot);
			break;
		case KTSN_SLOT_DEPARTING:
			departing++;
			charge_return(ring, slot);
			atomic_store_explicit(state, KTSN_SLOT_FREE, memory_order_release);
			show_free(ring, slot);
			break;
		case KTSN_SLOT_REPORTED:
			reported++;
			note_reported(ring, slot);
			show_reported(ring, slot);
			break;
		case KTSN_SLOT_FREE:
			show_free(ring, slot);
			break;
		default: /* WRITING: its producer will publish it, if it still runs */
			ring->unsettled[ktsn_ring_word(slot)] |= ktsn_ring_bit(slot);
			missing++;
			break;
		}
	}
	ktsn_ring_order_begin(&ring->order, ring->settled_sequence, missing);
	ring->reports_made =
		atomic_load_explicit(&ring->header->reports_read, memory_order_relaxed) + reported;
	/* Larger than every number from another ktsnd. */
	ring->report_sequence = UINT64_C(1) << 32 | ring->reports_made;
	return departing;
}

bool ktsn_ring_ready(const struct ktsn_ring_consumer *ring)
{
	return atomic_load_explicit(&ring->header->ready_summary, memory_order_seq_cst) != 0 ||
	       ring->collected_summary != 0 || ktsn_ring_order_any(&ring->order);
}

/* Fetches the ready bits from the memory. Bits beyond the ring or of slots already held are invalid. */
static void collect(struct ktsn_ring_consumer *ring)
{
	struct ktsn_ring_header *header = ring->header;
	uint32_t words = ring->slot_count / KTSN_RING_WORD_BITS;
	uint64_t summary = atomic_exchange_explicit(&header->ready_summary, 0, memory_order_seq_cst);

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

/* Limit of fetches in one call: producers on other processors may publish meanwhile. */
enum { COLLECT_AT_ONCE = 4 };

/*
 * Fetches until there is nothing new. A thread may publish two messages while the words are fetched one by
 * one, so that only the later of the two is fetched:
 *
 *   consumer   word 0            word 1
 *   producer           5 in word 0, 6 in word 1
 *
 * The summary then has the bit of the earlier one, because that was set before the bit of the later one.
 * False when there was something new each time.
 */
static bool collect_all(struct ktsn_ring_consumer *ring)
{
	for (int i = 0; i < COLLECT_AT_ONCE; i++) {
		if (atomic_load_explicit(&ring->header->ready_summary, memory_order_relaxed) == 0)
			return true;
		collect(ring);
	}
	return atomic_load_explicit(&ring->header->ready_summary, memory_order_relaxed) == 0;
}

static uint32_t collected_pop(struct ktsn_ring_consumer *ring)
{
	uint32_t w = (uint32_t)__builtin_ctzll(ring->collected_summary);
	uint64_t bits = ring->collected[w];

	ring->collected[w] = bits & (bits - 1);
	if (!ring->collected[w])
		ring->collected_summary &= ~(UINT64_C(1) << w);
	return w * KTSN_RING_WORD_BITS + (uint32_t)__builtin_ctzll(bits);
}

/* A bit without the state means nothing: the application set it wrongly, or a producer set it while
 * ktsn_ring_recover() read the states. */
static bool is_ready(const struct ktsn_ring_consumer *ring, uint32_t slot)
{
	/* Acquire pairs with the release of READY in ktsn_ring_publish(). */
	return atomic_load_explicit(&slot_at(ring, slot)->state, memory_order_acquire) == KTSN_SLOT_READY;
}

/* Called when the slot's message has a number. The slot was counted as missing in case the number had been
 * given before ktsn_ring_recover(). */
static void settle(struct ktsn_ring_consumer *ring, uint32_t slot, uint64_t sequence)
{
	uint64_t *unsettled = &ring->unsettled[ktsn_ring_word(slot)];

	if (!(*unsettled & ktsn_ring_bit(slot)))
		return;
	*unsettled &= ~ktsn_ring_bit(slot);
	if ((sequence & KTSN_RING_ORDER_SEQUENCES) >= ring->settled_sequence)
		ktsn_ring_order_found(&ring->order);
}

static void order_slot(struct ktsn_ring_consumer *ring, uint32_t slot)
{
	uint64_t sequence;

	if (!is_ready(ring, slot))
		return;
	memcpy(&sequence, &slot_at(ring, slot)->sequence, sizeof(sequence));
	settle(ring, slot, sequence);
	ring->taken[ktsn_ring_word(slot)] |= ktsn_ring_bit(slot);
	ktsn_ring_order_add(&ring->order, sequence, slot);
}

/* Whether the first of `order` is the oldest of all: all messages are in `order`, or it has the next number.
 */
static bool first_is_oldest(const struct ktsn_ring_consumer *ring)
{
	return ktsn_ring_order_first_is_next(&ring->order) || (ring->complete && !ring->collected_summary);
}

/* Limit of slots in one call, each of which is a cache miss. An application whose whole ring is ready, or
 * that sets bits all the time, must not delay the loop. */
enum { ORDER_AT_ONCE = 8 };

/* Moves collected slots to `order` until the oldest is known. False when it is not known yet. */
static bool order_collected(struct ktsn_ring_consumer *ring)
{
	for (int i = 0; i < ORDER_AT_ONCE && ring->collected_summary && !first_is_oldest(ring); i++)
		order_slot(ring, collected_pop(ring));
	return first_is_oldest(ring);
}

/* Returns whether the message was ready before ktsnd had the ring. */
static bool mark_taken(struct ktsn_ring_consumer *ring, uint32_t slot)
{
	const uint64_t bit = ktsn_ring_bit(slot);

	ring->reported[ktsn_ring_word(slot)] &= ~bit;
	ring->held++;
	return ring->recovered[ktsn_ring_word(slot)] & bit;
}

/* Limit of slots in one call that are no longer READY when they are the oldest. */
enum { INVALID_AT_ONCE = 4 };

/* Finds the oldest READY slot: 1; 0 when there is none; -EAGAIN when that is not known yet. */
static int oldest_slot(struct ktsn_ring_consumer *ring, struct ktsn_ring_taken *taken)
{
	if (!ring->complete)
		ring->complete = collect_all(ring);
	for (uint32_t invalid = 0; invalid < INVALID_AT_ONCE; invalid++) {
		bool any;

		if (!order_collected(ring))
			return -EAGAIN;
		any = ktsn_ring_order_take(&ring->order, &taken->sequence, &taken->slot);
		ring->complete =
			ring->complete && (ring->collected_summary || ktsn_ring_order_any(&ring->order));
		/* `order` had only invalid slots; messages may have come meanwhile. */
		if (!any)
			return ktsn_ring_ready(ring) ? -EAGAIN : 0;
		if (is_ready(ring, taken->slot))
			return 1;
		ring->taken[ktsn_ring_word(taken->slot)] &= ~ktsn_ring_bit(taken->slot);
	}
	return -EAGAIN;
}

int ktsn_ring_take(struct ktsn_ring_consumer *ring, struct ktsn_ring_taken *taken)
{
	struct ktsn_ring_slot *shared;
	int result = oldest_slot(ring, taken);

	if (result <= 0)
		return result;
	taken->recovered = mark_taken(ring, taken->slot);
	shared = slot_at(ring, taken->slot);
	memcpy(&taken->flow, &shared->flow, sizeof(taken->flow));
	memcpy(&taken->destination, &shared->destination, sizeof(taken->destination));
	memcpy(&taken->payload_bytes, &shared->payload_bytes, sizeof(taken->payload_bytes));
	memcpy(&taken->txtime_ns, &shared->txtime_ns, sizeof(taken->txtime_ns));
	memcpy(&taken->called_tai_ns, &shared->called_tai_ns, sizeof(taken->called_tai_ns));
	memcpy(&taken->ethertype_be, &shared->ethertype_be, sizeof(taken->ethertype_be));
	memcpy(&taken->priority, &shared->priority, sizeof(taken->priority));
	memcpy(&taken->stamps, &shared->stamps, sizeof(taken->stamps));
	/* The compiler must not read the slot again for the checks that follow. */
	atomic_signal_fence(memory_order_seq_cst);
	taken->priority &= KTSN_RING_PRIORITY_MASK;
	taken->stamps &= KTSN_STAMP_ALL;
	return taken->payload_bytes > ring->payload_capacity_bytes ? -EBADMSG : 1;
}

void ktsn_ring_untake(struct ktsn_ring_consumer *ring, const struct ktsn_ring_taken *taken)
{
	ring->held--;
	ktsn_ring_order_put_back(&ring->order, taken->sequence, taken->slot);
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

static void mark_released(struct ktsn_ring_consumer *ring, uint32_t slot)
{
	ring->taken[ktsn_ring_word(slot)] &= ~ktsn_ring_bit(slot);
	ring->recovered[ktsn_ring_word(slot)] &= ~ktsn_ring_bit(slot);
	ring->held--;
}

void ktsn_ring_release(struct ktsn_ring_consumer *ring, uint32_t slot)
{
	mark_released(ring, slot);
	charge_return(ring, slot);
	/* Release pairs with the acquire in claim_slot(). */
	atomic_store_explicit(&slot_at(ring, slot)->state, KTSN_SLOT_FREE, memory_order_release);
	show_free(ring, slot);
}

bool ktsn_ring_report_room(const struct ktsn_ring_consumer *ring)
{
	uint32_t read = atomic_load_explicit(&ring->header->reports_read, memory_order_relaxed);

	return ring->reports_made - read < ring->slot_count / 2;
}

uint8_t *ktsn_ring_taken_headers(const struct ktsn_ring_consumer *ring, uint32_t slot, size_t headers_bytes)
{
	return slot_at(ring, slot)->payload - headers_bytes;
}

void ktsn_ring_stamp(struct ktsn_ring_consumer *ring, uint32_t slot, int64_t departed_tai_ns)
{
	slot_at(ring, slot)->departed_tai_ns = departed_tai_ns;
}

void ktsn_ring_report(struct ktsn_ring_consumer *ring, uint32_t slot, uint8_t code, size_t headers_bytes)
{
	struct ktsn_ring_slot *shared = slot_at(ring, slot);

	mark_released(ring, slot);
	ring->reports_made++;
	charge_return(ring, slot);
	note_reported(ring, slot);
	shared->report_code = code;
	shared->report_headers_bytes = (uint8_t)headers_bytes;
	shared->sequence = ring->report_sequence++;
	/* Release pairs with the acquire in ktsn_ring_report_take(): who sees the state sees the report. */
	atomic_store_explicit(&shared->state, KTSN_SLOT_REPORTED, memory_order_release);
	show_reported(ring, slot);
}

bool ktsn_ring_reports_any(const struct ktsn_ring_consumer *ring)
{
	for (uint32_t w = 0; w < ring->slot_count / KTSN_RING_WORD_BITS; w++)
		if (atomic_load_explicit(&ring->header->reported[w], memory_order_relaxed))
			return true;
	return false;
}

static void report_discard(struct ktsn_ring_consumer *ring, uint32_t slot)
{
	struct ktsn_ring_slot *shared = slot_at(ring, slot);
	uint32_t state = KTSN_SLOT_REPORTED;

	if (!atomic_compare_exchange_strong_explicit(&shared->state, &state, KTSN_SLOT_FREE,
						     memory_order_acq_rel, memory_order_relaxed))
		return;
	atomic_fetch_and_explicit(&ring->header->reported[ktsn_ring_word(slot)], ~ktsn_ring_bit(slot),
				  memory_order_relaxed);
	ring->reports_made--;
	show_free(ring, slot);
}

void ktsn_ring_reports_discard(struct ktsn_ring_consumer *ring, uint32_t flow)
{
	for (uint32_t w = 0; w < ring->slot_count / KTSN_RING_WORD_BITS; w++) {
		for (uint64_t bits = ring->reported[w]; bits; bits &= bits - 1) {
			uint32_t slot = w * KTSN_RING_WORD_BITS + (uint32_t)__builtin_ctzll(bits);

			/* Reading the slot itself is a cache miss: done once for each report. */
			if (ring->reported_flow[slot] != flow)
				continue;
			ring->reported[w] &= ~(bits & -bits);
			report_discard(ring, slot);
		}
	}
}

bool ktsn_ring_space_polled(struct ktsn_ring_consumer *ring)
{
	/* A socket that announces itself after this load sees the slots that were freed before. */
	if (atomic_load_explicit(&ring->header->space_pollers, memory_order_seq_cst) == 0)
		return false;
	atomic_store_explicit(&ring->header->space_pollers, 0, memory_order_seq_cst);
	return true;
}

uint64_t ktsn_ring_space_pollers(struct ktsn_ring_consumer *ring, uint32_t w)
{
	return atomic_exchange_explicit(&ring->header->space_polled[w], 0, memory_order_seq_cst);
}

void ktsn_ring_trace_set(struct ktsn_ring_consumer *ring, bool traced)
{
	atomic_store_explicit(&ring->header->trace, traced, memory_order_relaxed);
}

void ktsn_ring_doorbell_set(struct ktsn_ring_consumer *ring, const int64_t before_ns[KTSN_CLOCKS])
{
	for (int clock = 0; clock < KTSN_CLOCKS; clock++)
		atomic_store_explicit(&ring->header->doorbell_before_ns[clock], before_ns[clock],
				      memory_order_seq_cst);
}
