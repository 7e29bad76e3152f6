/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots in the order of the sequence numbers that their messages got when they were published, smallest
 * first.
 *
 *   added in order         first -> 7 9 12 14 <- added behind the last
 *   added out of order     a binary heap: 3 8 5 ...
 *
 * Producers claim the lowest free slot and ktsnd collects the lowest first, so most slots are added in order,
 * which takes as little time as in a queue. While no number is missing, the next one is known, and no slot
 * that is added later belongs before it. A thread that is killed after it got a number and before it
 * publishes leaves that number missing for good. The application writes the numbers: they may have any value,
 * and may be repeated.
 *
 * ktsnd's loop thread. Private memory. A slot is not added twice before it is taken out.
 */
#ifndef KTSN_RING_ORDER_H
#define KTSN_RING_ORDER_H

#include "layout.h"

#include <stdbool.h>

/* A sequence number and its slot share a word, the key. */
enum { KTSN_RING_ORDER_SLOT_BITS = 12 };
#define KTSN_RING_ORDER_SEQUENCES (UINT64_MAX >> KTSN_RING_ORDER_SLOT_BITS)
#define KTSN_RING_ORDER_NONE      UINT64_MAX
static_assert(KTSN_RING_SLOTS_MAX == 1 << KTSN_RING_ORDER_SLOT_BITS, "a slot fits beside a sequence");

struct ktsn_ring_order {
	uint32_t capacity;
	uint32_t in_order_first, in_order_count;
	uint32_t heap_count;
	uint64_t next;    /* one more than the largest sequence number that was taken out */
	uint64_t missing; /* count of smaller ones that were not taken out and may still be added */
	/* Only the first `capacity` elements of each array are used. */
	uint64_t in_order[KTSN_RING_SLOTS_MAX]; /* circular */
	uint64_t heap[KTSN_RING_SLOTS_MAX];
};

/* For slots below `slot_count`. */
void ktsn_ring_order_init(struct ktsn_ring_order *order, uint32_t slot_count);

/* For keys that are added out of order. */
void ktsn_ring_order_heap_add(struct ktsn_ring_order *order, uint64_t key);
void ktsn_ring_order_heap_drop(struct ktsn_ring_order *order); /* the smallest */

static inline bool ktsn_ring_order_any(const struct ktsn_ring_order *order)
{
	return (order->in_order_count | order->heap_count) != 0;
}

/* Index in in_order of the element that comes `distance` after the first. */
static inline uint32_t ktsn_ring_order_index(const struct ktsn_ring_order *order, uint32_t distance)
{
	uint32_t index = order->in_order_first + distance;

	return index < order->capacity ? index : index - order->capacity;
}

/* Uses 52 bits of the sequence number, which is more messages than a ring will ever have. */
static inline void ktsn_ring_order_add(struct ktsn_ring_order *order, uint64_t sequence, uint32_t slot)
{
	uint64_t key = sequence << KTSN_RING_ORDER_SLOT_BITS | slot;
	uint32_t count = order->in_order_count;

	/* Restart at the beginning, to use as few cache lines as possible. */
	if (!count)
		order->in_order_first = 0;
	else if (key < order->in_order[ktsn_ring_order_index(order, count - 1)]) {
		ktsn_ring_order_heap_add(order, key);
		return;
	}
	order->in_order[ktsn_ring_order_index(order, count)] = key;
	order->in_order_count++;
}

/* The smallest key; KTSN_RING_ORDER_NONE when there is none. */
static inline uint64_t ktsn_ring_order_first(const struct ktsn_ring_order *order)
{
	uint64_t in_order =
		order->in_order_count ? order->in_order[order->in_order_first] : KTSN_RING_ORDER_NONE;

	return order->heap_count && order->heap[0] < in_order ? order->heap[0] : in_order;
}

/* Whether no slot that is added later belongs before the first. */
static inline bool ktsn_ring_order_first_is_next(const struct ktsn_ring_order *order)
{
	return !order->missing && ktsn_ring_order_any(order) &&
	       ktsn_ring_order_first(order) >> KTSN_RING_ORDER_SLOT_BITS == order->next;
}

/* For a ring that another ktsnd had: of the sequence numbers below `next` at most `missing` will be added. */
static inline void ktsn_ring_order_begin(struct ktsn_ring_order *order, uint64_t next, uint64_t missing)
{
	order->next = next;
	order->missing = missing;
}

/* Counts one sequence number less as missing. */
static inline void ktsn_ring_order_found(struct ktsn_ring_order *order)
{
	order->missing -= order->missing > 0;
}

/* Counts the numbers as missing that the sequence skips. */
static inline void ktsn_ring_order_count(struct ktsn_ring_order *order, uint64_t sequence)
{
	if (sequence < order->next) {
		ktsn_ring_order_found(order);
		return;
	}
	order->missing += sequence - order->next;
	order->next = sequence + 1;
}

/* Takes out the slot with the smallest sequence number. False when there is none. */
static inline bool ktsn_ring_order_take(struct ktsn_ring_order *order, uint64_t *sequence, uint32_t *slot)
{
	uint64_t key = ktsn_ring_order_first(order);

	if (!ktsn_ring_order_any(order))
		return false;
	if (order->in_order_count && key == order->in_order[order->in_order_first]) {
		order->in_order_first = ktsn_ring_order_index(order, 1);
		order->in_order_count--;
	} else {
		ktsn_ring_order_heap_drop(order);
	}
	*sequence = key >> KTSN_RING_ORDER_SLOT_BITS;
	*slot = (uint32_t)key & (KTSN_RING_SLOTS_MAX - 1);
	ktsn_ring_order_count(order, *sequence);
	return true;
}

/* Adds a slot that was taken out again. */
static inline void ktsn_ring_order_put_back(struct ktsn_ring_order *order, uint64_t sequence, uint32_t slot)
{
	if (sequence + 1 == order->next)
		order->next = sequence;
	else
		order->missing++;
	ktsn_ring_order_add(order, sequence, slot);
}

#endif
