/* SPDX-License-Identifier: Apache-2.0 */
#include "txtime_slot.h"

#include "leftist_heap.h"

#include <assert.h>
#include <stdalign.h>

static_assert(alignof(struct ktsn_shaper_packet) > KTSN_SLOT_TAG_MASK, "no bits are left for the tag");
static_assert(KTSN_SLOT_FEW < KTSN_SLOT_ORDERED, "a number and the mark are the same");

/* ---- ordered slots: `head` has the end of the list, and the heap ---- */

static struct ktsn_shaper_packet *ordered_push(struct ktsn_shaper_packet *head,
					       struct ktsn_shaper_packet *packet)
{
	if (!head || ktsn_packet_before(packet, head)) {
		packet->next = head;
		packet->tail = head ? head->tail : packet;
		packet->heap = head ? head->heap : NULL;
		return packet;
	}
	if (ktsn_packet_before(packet, head->tail)) {
		head->heap = ktsn_leftist_heap_push(head->heap, packet);
		return head;
	}
	packet->next = NULL;
	head->tail->next = packet;
	head->tail = packet;
	return head;
}

/* Removes the head. Returns the new one, the first of the list or of the heap. */
static struct ktsn_shaper_packet *ordered_pop(const struct ktsn_shaper_packet *head)
{
	struct ktsn_shaper_packet *list = head->next, *heap = head->heap, *first;

	if (!heap || (list && ktsn_packet_before(list, heap))) {
		if (list) {
			list->tail = head->tail;
			list->heap = heap;
		}
		return list;
	}
	first = heap;
	heap = ktsn_leftist_heap_pop(heap);
	first->next = list;
	first->tail = list ? head->tail : first;
	first->heap = heap;
	return first;
}

static void ordered_set(struct ktsn_queue_slot *slot, struct ktsn_shaper_packet *head)
{
	slot->tagged = head ? (uintptr_t)head | KTSN_SLOT_ORDERED : 0;
}

/* ---- a few ---- */

/* Orders the packets of an unordered slot, from the last in the list, which came first and usually is the
 * earliest. */
static struct ktsn_shaper_packet *few_order(struct ktsn_shaper_packet *few)
{
	struct ktsn_shaper_packet *arrived[KTSN_SLOT_FEW], *head = NULL;
	int count = 0;

	for (; few && count < KTSN_SLOT_FEW; few = few->next)
		arrived[count++] = few;
	while (count-- > 0)
		head = ordered_push(head, arrived[count]);
	return head;
}

static struct ktsn_shaper_packet *few_pop(struct ktsn_queue_slot *slot)
{
	struct ktsn_shaper_packet *first = ktsn_slot_list(slot), *before_first = NULL;
	uintptr_t left = (slot->tagged & KTSN_SLOT_TAG_MASK) - 1;

	if (!left) {
		slot->tagged = 0;
		return first;
	}
	for (struct ktsn_shaper_packet *before = first; before->next; before = before->next) {
		if (ktsn_packet_before(before->next, first)) {
			first = before->next;
			before_first = before;
		}
	}
	if (before_first) {
		before_first->next = first->next;
		slot->tagged--;
	} else {
		slot->tagged = (uintptr_t)first->next | left;
	}
	return first;
}

/* ---- */

void ktsn_slot_push_ordered(struct ktsn_queue_slot *slot, struct ktsn_shaper_packet *packet)
{
	struct ktsn_shaper_packet *head = ktsn_slot_list(slot);

	if ((slot->tagged & KTSN_SLOT_TAG_MASK) != KTSN_SLOT_ORDERED)
		head = few_order(head);
	ordered_set(slot, ordered_push(head, packet));
}

struct ktsn_shaper_packet *ktsn_slot_pop(struct ktsn_queue_slot *slot)
{
	struct ktsn_shaper_packet *head;

	if ((slot->tagged & KTSN_SLOT_TAG_MASK) != KTSN_SLOT_ORDERED)
		return few_pop(slot);
	head = ktsn_slot_list(slot);
	ordered_set(slot, ordered_pop(head));
	return head;
}
