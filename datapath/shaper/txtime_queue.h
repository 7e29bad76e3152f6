/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets in the order of (transmit time, order), exactly. The first is known at once; a push and a pop take
 * a few steps, and never many, whatever is held.
 *
 * A calendar with pages of different scale. A packet lies on the finest page that reaches as far as its time,
 * in the slot of that time. The slots of a page are circular and begin at `current`, and a bitmap
 * of them with a summary finds the first one in use:
 *
 *   page 2   [ | | | |x| | | ... ]   2048 slots of 16 us: 34 ms
 *   page 1   [ |x| |x|x| | | ... ]   2048 slots of 1 us: 2 ms
 *   page 0   [ | |x| | | | | ... ]   2048 slots of 64 ns: 131 us
 *             ^ slot of `current`
 *
 * In a timing wheel all that shares a slot moves to finer slots when its time comes near, at once, and what
 * is due meanwhile is late. Here nothing moves: the next packet is the earliest head, and the head of a page,
 * its first packet, is in no slot. What shares a slot is in txtime_slot.h. Packets that come in order, the
 * usual case, are on no page: they are a list, the run. docs/decisions/0005 has the measurements.
 *
 * Embedded in the user's memory, fixed in size. One thread at a time.
 */
#ifndef KTSN_SHAPER_TXTIME_QUEUE_H
#define KTSN_SHAPER_TXTIME_QUEUE_H

#include "txtime_slot.h"

enum {
	KTSN_QUEUE_SLOT_BITS = 11,
	KTSN_QUEUE_SLOTS = 1 << KTSN_QUEUE_SLOT_BITS,
	KTSN_QUEUE_FINEST_BITS = 6, /* a slot of page 0 has 64 ns, */
	KTSN_QUEUE_PAGE_BITS = 4,   /* one of each following page 16 times as many, */
	KTSN_QUEUE_PAGES = 6,       /* and the last page reaches 137 s ahead */
};

struct ktsn_queue_page {
	uint64_t words_used; /* bit w: words[w] is not 0 */
	uint64_t words[KTSN_QUEUE_SLOTS / 64];
	struct ktsn_queue_slot slots[KTSN_QUEUE_SLOTS];
};

/* Where packets wait: on a page, beyond all pages, or among those that came in order. */
enum { KTSN_QUEUE_FAR = KTSN_QUEUE_PAGES, KTSN_QUEUE_RUN, KTSN_QUEUE_PLACES };

/* The first packet of a place, which is in no slot, with its time at hand: to compare places touches none. */
struct ktsn_queue_head {
	int64_t txtime_tai_ns;
	struct ktsn_shaper_packet *packet;
};

struct ktsn_txtime_queue {
	struct ktsn_shaper_packet *first; /* of all, and in no place; NULL: empty */
	uint32_t count;
	uint32_t places_used;   /* bit p: heads[p] is set */
	int64_t current_tai_ns; /* nothing that is on a page belongs before the slots of this time */
	struct ktsn_shaper_packet *run_last;
	struct ktsn_queue_slot far; /* what no page reaches */
	struct ktsn_queue_head heads[KTSN_QUEUE_PLACES];
	struct ktsn_queue_page pages[KTSN_QUEUE_PAGES];
};

/* Makes it empty. */
void ktsn_txtime_queue_init(struct ktsn_txtime_queue *queue);

/* The packet's time is from 0 to KTSN_TXTIME_MAX_NS. `now` is a hint only: packets with times before it are
 * not expected to come. */
void ktsn_txtime_queue_push(struct ktsn_txtime_queue *queue, struct ktsn_shaper_packet *packet,
			    int64_t now_tai_ns);

/* The packet that leaves first, or NULL when the queue is empty. */
static inline struct ktsn_shaper_packet *ktsn_txtime_queue_first(const struct ktsn_txtime_queue *queue)
{
	return queue->first;
}

/* Removes and returns the first; there must be one. */
struct ktsn_shaper_packet *ktsn_txtime_queue_pop(struct ktsn_txtime_queue *queue);

#endif
