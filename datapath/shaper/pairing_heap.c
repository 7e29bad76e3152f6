/* SPDX-License-Identifier: Apache-2.0 */
#include "pairing_heap.h"

/* Neither is empty nor has siblings: the later one becomes the first child of the other. */
static struct ktsn_shaper_packet *meld(struct ktsn_shaper_packet *a, struct ktsn_shaper_packet *b)
{
	if (ktsn_packet_before(b, a)) {
		struct ktsn_shaper_packet *earlier = b;

		b = a;
		a = earlier;
	}
	b->next = a->child;
	a->child = b;
	return a;
}

struct ktsn_shaper_packet *ktsn_pairing_heap_push(struct ktsn_shaper_packet *heap,
						  struct ktsn_shaper_packet *packet)
{
	packet->next = packet->child = NULL;
	return heap ? meld(heap, packet) : packet;
}

/* Siblings are melded in pairs from left to right, the pairs on a stack through `next`. */
static struct ktsn_shaper_packet *pairs_meld(struct ktsn_shaper_packet *sibling)
{
	struct ktsn_shaper_packet *stack = NULL;

	while (sibling) {
		struct ktsn_shaper_packet *second = sibling->next;
		struct ktsn_shaper_packet *rest = second ? second->next : NULL;
		struct ktsn_shaper_packet *pair = second ? meld(sibling, second) : sibling;

		pair->next = stack;
		stack = pair;
		sibling = rest;
	}
	return stack;
}

struct ktsn_shaper_packet *ktsn_pairing_heap_pop(struct ktsn_shaper_packet *heap)
{
	struct ktsn_shaper_packet *stack = pairs_meld(heap->child);
	struct ktsn_shaper_packet *all = NULL;

	while (stack) {
		struct ktsn_shaper_packet *below = stack->next;

		stack->next = NULL;
		all = all ? meld(all, stack) : stack;
		stack = below;
	}
	return all;
}
