/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A heap of packets in the order of (transmit time, order), as the queue's: a leftist heap (Crane 1972;
 * Knuth, The Art of Computer Programming 5.2.3), of which every step is O(log n), also the worst. A heap is
 * its first packet, NULL when empty. The queue has one for packets that came out of order, the loop small
 * ones beside the shaper.
 */
#ifndef KTSN_SHAPER_LEFTIST_HEAP_H
#define KTSN_SHAPER_LEFTIST_HEAP_H

#include "packet.h"

/* Both return the heap as it is then. */
struct ktsn_shaper_packet *ktsn_leftist_heap_push(struct ktsn_shaper_packet *heap,
						  struct ktsn_shaper_packet *packet);
/* The first one leaves it; there must be one. */
struct ktsn_shaper_packet *ktsn_leftist_heap_pop(struct ktsn_shaper_packet *heap);

#endif
