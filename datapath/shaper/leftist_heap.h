/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A leftist heap of packets (Crane 1972; Knuth, The Art of Computer Programming 5.2.3) in the order of
 * (transmit time, order). Each operation is O(log n) in the worst case. A heap is represented by its first
 * packet, NULL when empty. The queue uses one for packets that came out of order, the loop small ones next to
 * the shaper.
 */
#ifndef KTSN_SHAPER_LEFTIST_HEAP_H
#define KTSN_SHAPER_LEFTIST_HEAP_H

#include "packet.h"

/* Adds a packet. Returns the new heap. */
struct ktsn_shaper_packet *ktsn_leftist_heap_push(struct ktsn_shaper_packet *heap,
						  struct ktsn_shaper_packet *packet);
/* Removes the first packet; there must be one. Returns the new heap. */
struct ktsn_shaper_packet *ktsn_leftist_heap_pop(struct ktsn_shaper_packet *heap);

#endif
