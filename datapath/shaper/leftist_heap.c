/* SPDX-License-Identifier: Apache-2.0 */
#include "leftist_heap.h"

#include <stddef.h>

/* Returns the length of the path to the right end. */
static uint8_t rank_of(const struct ktsn_shaper_packet *heap)
{
	return heap ? heap->right_rank + 1 : 0;
}

/*
 * Melds along the right paths, which in a heap of n are at most log2(n + 1) long, because the longer path is
 * always the left one. The parent has the ranks of both children, so that the left child is not touched.
 */
static struct ktsn_shaper_packet *meld(struct ktsn_shaper_packet *a, struct ktsn_shaper_packet *b)
{
	struct ktsn_shaper_packet *first, *right;
	uint8_t rank;

	if (!a || !b)
		return a ? a : b;
	first = ktsn_packet_before(b, a) ? b : a;
	right = meld(first->right, first == a ? b : a);
	rank = rank_of(right);
	if (rank <= first->left_rank) {
		first->right = right;
		first->right_rank = rank;
	} else {
		first->right = first->left;
		first->right_rank = first->left_rank;
		first->left = right;
		first->left_rank = rank;
	}
	return first;
}

struct ktsn_shaper_packet *ktsn_leftist_heap_push(struct ktsn_shaper_packet *heap,
						  struct ktsn_shaper_packet *packet)
{
	packet->left = packet->right = NULL;
	packet->left_rank = packet->right_rank = 0;
	return meld(heap, packet);
}

struct ktsn_shaper_packet *ktsn_leftist_heap_pop(struct ktsn_shaper_packet *heap)
{
	return meld(heap->left, heap->right);
}
