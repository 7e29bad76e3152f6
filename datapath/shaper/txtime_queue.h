/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A priority queue of packets in the exact order of (transmit time, order). The first packet is available in
 * constant time; a push and a pop take a few steps, with a low bound for any content.
 *
 * A calendar with pages of different scale. A packet is on the finest page that reaches its time, in the slot
 * of that time. The slots of a page are circular and begin at `current`; a bitmap with a summary finds the
 * first used slot:
 *
 *   page 2   [ | | | |x| | | ... ]   2048 slots of 16 us: 34 ms
 *   page 1   [ |x| |x|x| | | ... ]   2048 slots of 1 us: 2 ms
 *   page 0   [ | |x| | | | | ... ]   2048 slots of 64 ns: 131 us
 *             ^ slot of `current`
 *
 * In a timing wheel all packets of a slot move to finer slots at once when their time comes near, which
 * delays packets that are due. Here no packet moves: the next packet is the earliest head of all pages, and
 * the head of a page is in no slot. For packets that share a slot see txtime_queue.c. Packets that come in
 * order, the usual case, are on no page: they are a list, the run. docs/internals/decisions/0005 has the
 * measurements.
 *
 * Embedded in the caller's memory, fixed in size. One thread at a time.
 */
#ifndef KTSN_SHAPER_TXTIME_QUEUE_H
#define KTSN_SHAPER_TXTIME_QUEUE_H

#include "packet.h"

#include <stddef.h>

enum {
	KTSN_QUEUE_SLOT_BITS = 11,
	KTSN_QUEUE_SLOTS = 1 << KTSN_QUEUE_SLOT_BITS,
	KTSN_QUEUE_FINEST_BITS = 6, /* a slot of page 0 has 64 ns, */
	KTSN_QUEUE_PAGE_BITS = 4,   /* one of each following page 16 times as many, */
	KTSN_QUEUE_PAGES = 6,       /* and the last page reaches 137 s ahead */
};

/* All zero: empty. */
struct ktsn_queue_slot {
	uintptr_t tagged; /* the first packet; the lowest bits are the number of packets, or
			     SLOT_ORDERED (txtime_queue.c) */
};

struct ktsn_queue_page {
	uint64_t words_used; /* bit w: words[w] is not 0 */
	uint64_t words[KTSN_QUEUE_SLOTS / 64];
	struct ktsn_queue_slot slots[KTSN_QUEUE_SLOTS];
};

/* Places of packets: a page, beyond all pages, or the run. */
enum { KTSN_QUEUE_FAR = KTSN_QUEUE_PAGES, KTSN_QUEUE_RUN, KTSN_QUEUE_PLACES };

/* The first packet of a place, which is in no slot. The copy of its time avoids touching packets to compare
 * places. */
struct ktsn_queue_head {
	int64_t txtime_tai_ns;
	struct ktsn_shaper_packet *packet;
};

struct ktsn_txtime_queue {
	struct ktsn_shaper_packet *first; /* first of all packets, in no place; NULL: empty */
	uint32_t count;
	uint32_t places_used;   /* bit p: heads[p] is set */
	int64_t current_tai_ns; /* the slots of pages begin at this time */
	struct ktsn_shaper_packet *run_last;
	struct ktsn_queue_slot far; /* packets that no page reaches */
	struct ktsn_queue_head heads[KTSN_QUEUE_PLACES];
	struct ktsn_queue_page pages[KTSN_QUEUE_PAGES];
};

/* Initialises an empty queue. */
void ktsn_txtime_queue_init(struct ktsn_txtime_queue *queue);

/* Adds a packet, whose time must be from 0 to KTSN_TXTIME_MAX_NS. `now` is only a hint: most packets have
 * later times. */
void ktsn_txtime_queue_push(struct ktsn_txtime_queue *queue, struct ktsn_shaper_packet *packet,
			    int64_t now_tai_ns);

/* Returns the packet that leaves first, or NULL when the queue is empty. */
static inline struct ktsn_shaper_packet *ktsn_txtime_queue_first(const struct ktsn_txtime_queue *queue)
{
	return queue->first;
}

/* Removes and returns the first; there must be one. */
struct ktsn_shaper_packet *ktsn_txtime_queue_pop(struct ktsn_txtime_queue *queue);

#endif
