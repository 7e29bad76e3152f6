/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A priority queue of packets without memory of its own: a pairing heap (Fredman, Sedgewick, Sleator and
 * Tarjan, 1986). The heap is its first packet, NULL when empty; `child` leads to a packet's first child,
 * `next` to its next sibling. Private to this folder.
 */
#ifndef KTSN_SHAPER_PAIRING_HEAP_H
#define KTSN_SHAPER_PAIRING_HEAP_H

#include "packet.h"

#include <stddef.h>

/* Both return the heap that results. O(1), and O(log n) averaged over the packets that pass. */
struct ktsn_shaper_packet *ktsn_pairing_heap_push(struct ktsn_shaper_packet *heap,
						  struct ktsn_shaper_packet *packet);
struct ktsn_shaper_packet *ktsn_pairing_heap_pop(struct ktsn_shaper_packet *heap);

#endif
