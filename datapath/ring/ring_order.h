/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots in the order of the numbers that their messages got when they were handed over, the smallest first.
 *
 *   added in order         first -> 7 9 12 14 <- added behind the last
 *   added out of order     a binary heap: 3 8 5 ...
 *
 * Producers claim the lowest free slot and ktsnd collects the lowest first, so most are added in order, which
 * takes as little time as a queue. While no number was left out, the next one is known, and nothing that is
 * added later belongs before it. A thread that is killed between its number and its message leaves one out
 * for good. Numbers are the application's word: of any value, and any number of times the same.
 *
 * ktsnd's loop thread. Private memory. A slot that was added is not added again before it was taken out.
 */
#ifndef KTSN_RING_ORDER_H
#define KTSN_RING_ORDER_H

#include "layout.h"

#include <stdbool.h>

/* A sequence and its slot are one word. */
enum { KTSN_RING_ORDER_SLOT_BITS = 12 };
#define KTSN_RING_ORDER_SEQUENCES (UINT64_MAX >> KTSN_RING_ORDER_SLOT_BITS)
#define KTSN_RING_ORDER_NONE      UINT64_MAX
static_assert(KTSN_RING_SLOTS_MAX == 1 << KTSN_RING_ORDER_SLOT_BITS, "a slot fits beside a sequence");

struct ktsn_ring_order {
	uint32_t capacity;
	uint32_t in_order_first, in_order_count;
	uint32_t heap_count;
	uint64_t next;    /* one more than the largest sequence that was taken out */
	uint64_t missing; /* smaller ones that were not, and may be added yet */
	/* Of each only the first `capacity` are ever touched. */
	uint64_t in_order[KTSN_RING_SLOTS_MAX]; /* a circle */
	uint64_t heap[KTSN_RING_SLOTS_MAX];
};

/* For slots below `slot_count`. */
void ktsn_ring_order_init(struct ktsn_ring_order *order, uint32_t slot_count);

/* Those that were added out of order, as words. */
void ktsn_ring_order_heap_add(struct ktsn_ring_order *order, uint64_t key);
void ktsn_ring_order_heap_drop(struct ktsn_ring_order *order); /* the smallest */

static inline bool ktsn_ring_order_any(const struct ktsn_ring_order *order)
{
	return (order->in_order_count | order->heap_count) != 0;
}

/* In the circle, so many behind the first. */
static inline uint32_t ktsn_ring_order_place(const struct ktsn_ring_order *order, uint32_t behind)
{
	uint32_t place = order->in_order_first + behind;

	return place < order->capacity ? place : place - order->capacity;
}

/* 52 bits of the sequence count: more messages than a ring will ever have. */
static inline void ktsn_ring_order_add(struct ktsn_ring_order *order, uint64_t sequence, uint32_t slot)
{
	uint64_t key = sequence << KTSN_RING_ORDER_SLOT_BITS | slot;
	uint32_t count = order->in_order_count;

	/* So that as few lines of memory are touched as will do. */
	if (!count)
		order->in_order_first = 0;
	else if (key < order->in_order[ktsn_ring_order_place(order, count - 1)]) {
		ktsn_ring_order_heap_add(order, key);
		return;
	}
	order->in_order[ktsn_ring_order_place(order, count)] = key;
	order->in_order_count++;
}

/* The smallest sequence with its slot; KTSN_RING_ORDER_NONE when there is none. */
static inline uint64_t ktsn_ring_order_first(const struct ktsn_ring_order *order)
{
	uint64_t in_order =
		order->in_order_count ? order->in_order[order->in_order_first] : KTSN_RING_ORDER_NONE;

	return order->heap_count && order->heap[0] < in_order ? order->heap[0] : in_order;
}

/* Whether nothing that is added belongs before the first. */
static inline bool ktsn_ring_order_first_is_next(const struct ktsn_ring_order *order)
{
	return !order->missing && ktsn_ring_order_any(order) &&
	       ktsn_ring_order_first(order) >> KTSN_RING_ORDER_SLOT_BITS == order->next;
}

/* Of a ring that another ktsnd had: of the sequences below `next` at most so many will be added here. */
static inline void ktsn_ring_order_begin(struct ktsn_ring_order *order, uint64_t next, uint64_t missing)
{
	order->next = next;
	order->missing = missing;
}

/* One of those that were thought to be missing is not. */
static inline void ktsn_ring_order_found(struct ktsn_ring_order *order)
{
	order->missing -= order->missing > 0;
}

/* Nothing is missing if all smaller sequences were taken out here. */
static inline void ktsn_ring_order_count(struct ktsn_ring_order *order, uint64_t sequence)
{
	if (sequence < order->next) {
		ktsn_ring_order_found(order);
		return;
	}
	order->missing += sequence - order->next;
	order->next = sequence + 1;
}

/* Takes the slot with the smallest sequence out. False when there is none. */
static inline bool ktsn_ring_order_take(struct ktsn_ring_order *order, uint64_t *sequence, uint32_t *slot)
{
	uint64_t key = ktsn_ring_order_first(order);

	if (!ktsn_ring_order_any(order))
		return false;
	if (order->in_order_count && key == order->in_order[order->in_order_first]) {
		order->in_order_first = ktsn_ring_order_place(order, 1);
		order->in_order_count--;
	} else {
		ktsn_ring_order_heap_drop(order);
	}
	*sequence = key >> KTSN_RING_ORDER_SLOT_BITS;
	*slot = (uint32_t)key & (KTSN_RING_SLOTS_MAX - 1);
	ktsn_ring_order_count(order, *sequence);
	return true;
}

/* Adds a slot again that was taken out. */
static inline void ktsn_ring_order_put_back(struct ktsn_ring_order *order, uint64_t sequence, uint32_t slot)
{
	if (sequence + 1 == order->next)
		order->next = sequence;
	else
		order->missing++;
	ktsn_ring_order_add(order, sequence, slot);
}

#endif
