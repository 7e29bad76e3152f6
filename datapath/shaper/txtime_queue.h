/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets in the order of (transmit time, order): first the exact one, in constant time whatever is held.
 *
 * A timing wheel of wheels with a bitmap each (Varghese and Lauck, "Hashed and hierarchical timing wheels",
 * 1987): a transmit time is eleven digits of six bits. A packet lies at the level of the highest digit in
 * which its time differs from the wheel's `current` time, in the slot of that digit:
 *
 *   level 2   [ | | |x| | ... ]   64 slots of 4096 ns each, in this level-3 slot
 *   level 1   [ | |x|x| | ... ]   64 slots of 64 ns
 *   level 0   [ |x| | | | ... ]   64 slots of 1 ns
 *              ^ current
 *
 * so the first packet is in the first slot of the lowest level that is not empty. When it leaves, `current`
 * becomes its time, and what shares its slot moves to lower levels. A slot of one, the usual case, is just
 * emptied.
 *
 * What a wheel cannot hold in order goes into a heap beside it: packets whose time is before `current` (they
 * were late when they came), and those of equal time that did not come in their order. Of the two the first
 * leaves first, so the order is exact in any case. docs/decisions/0004 has the measurements.
 *
 * Embedded in the user's memory, fixed in size. One thread at a time.
 */
#ifndef KTSN_SHAPER_TXTIME_QUEUE_H
#define KTSN_SHAPER_TXTIME_QUEUE_H

#include "packet.h"

#include <stddef.h>

enum {
	KTSN_WHEEL_DIGIT_BITS = 6,
	KTSN_WHEEL_SLOTS = 1 << KTSN_WHEEL_DIGIT_BITS,
	KTSN_WHEEL_LEVELS = 11,
};

struct ktsn_wheel_slot {
	struct ktsn_shaper_packet *head; /* in the order in which they came; NULL: none */
	struct ktsn_shaper_packet *tail;
	struct ktsn_shaper_packet *first; /* the one that leaves first */
};

struct ktsn_txtime_queue {
	uint32_t count;
	uint32_t levels_used; /* bit l: level l is not empty */
	int64_t current_tai_ns;
	struct ktsn_shaper_packet *heap;
	uint64_t slots_used[KTSN_WHEEL_LEVELS]; /* bit s: slot s is not empty */
	struct ktsn_wheel_slot slots[KTSN_WHEEL_LEVELS][KTSN_WHEEL_SLOTS];
};

/* Makes it empty. */
void ktsn_txtime_queue_init(struct ktsn_txtime_queue *queue);

/* The packet's time is from 0 to KTSN_TXTIME_MAX_NS. `now` is a hint only: packets with times before it are
 * not expected to come. */
void ktsn_txtime_queue_push(struct ktsn_txtime_queue *queue, struct ktsn_shaper_packet *packet,
			    int64_t now_tai_ns);

/* The packet that leaves first, or NULL when the queue is empty. */
struct ktsn_shaper_packet *ktsn_txtime_queue_first(const struct ktsn_txtime_queue *queue);

/* Removes and returns the first; there must be one. */
struct ktsn_shaper_packet *ktsn_txtime_queue_pop(struct ktsn_txtime_queue *queue);

#endif
