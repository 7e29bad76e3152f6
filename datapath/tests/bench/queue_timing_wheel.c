/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hierarchical timing wheel (Varghese and Lauck 1987): a transmit time is eleven digits of six bits; a packet
 * lies at the level of the highest digit in which its time differs from `current`, in the slot of that digit.
 * When the first packet leaves, what shares its slot moves to lower levels. What comes late, or is of equal time
 * and out of order, goes into a pairing heap beside it.
 */
#include "bench.h"
#include "queues.h"

#include <stdlib.h>

enum { DIGIT_BITS = 6, SLOTS = 1 << DIGIT_BITS, LEVELS = 11 };

struct slot {
	struct ktsn_shaper_packet *head; /* in the order in which they came */
	struct ktsn_shaper_packet *tail;
	struct ktsn_shaper_packet *first;
};

struct wheel {
	uint32_t levels_used;
	int64_t current_tai_ns;
	struct ktsn_shaper_packet *heap;
	uint64_t slots_used[LEVELS];
	struct slot slots[LEVELS][SLOTS];
};

/* ---- the heap: first child in `right`, siblings in `next` ---- */

static struct ktsn_shaper_packet *meld(struct ktsn_shaper_packet *a, struct ktsn_shaper_packet *b)
{
	struct ktsn_shaper_packet *first = ktsn_packet_before(b, a) ? b : a;
	struct ktsn_shaper_packet *second = first == a ? b : a;

	second->next = first->right;
	first->right = second;
	return first;
}

static void heap_push(struct wheel *wheel, struct ktsn_shaper_packet *packet)
{
	packet->next = packet->right = NULL;
	wheel->heap = wheel->heap ? meld(wheel->heap, packet) : packet;
}

static struct ktsn_shaper_packet *heap_rest(struct ktsn_shaper_packet *sibling)
{
	struct ktsn_shaper_packet *stack = NULL, *all = NULL;

	while (sibling) {
		struct ktsn_shaper_packet *second = sibling->next;
		struct ktsn_shaper_packet *rest = second ? second->next : NULL;
		struct ktsn_shaper_packet *pair = second ? meld(sibling, second) : sibling;

		pair->next = stack;
		stack = pair;
		sibling = rest;
	}
	while (stack) {
		struct ktsn_shaper_packet *below = stack->next;

		stack->next = NULL;
		all = all ? meld(all, stack) : stack;
		stack = below;
	}
	return all;
}

/* ---- the wheel ---- */

static void *wheel_create(uint32_t packets)
{
	(void)packets;
	return bench_alloc(sizeof(struct wheel));
}

static unsigned int level_of(const struct wheel *wheel, int64_t tai_ns)
{
	uint64_t difference = (uint64_t)(tai_ns ^ wheel->current_tai_ns);

	return difference ? (63 - (unsigned int)__builtin_clzll(difference)) / DIGIT_BITS : 0;
}

static void place(struct wheel *wheel, struct ktsn_shaper_packet *packet)
{
	unsigned int level = level_of(wheel, packet->txtime_tai_ns);
	unsigned int digit = (unsigned int)(packet->txtime_tai_ns >> (level * DIGIT_BITS)) & (SLOTS - 1);
	struct slot *slot = &wheel->slots[level][digit];

	packet->next = NULL;
	if (!(wheel->slots_used[level] >> digit & 1)) {
		*slot = (struct slot){packet, packet, packet};
		wheel->slots_used[level] |= UINT64_C(1) << digit;
		wheel->levels_used |= 1U << level;
		return;
	}
	if (level == 0 && packet->order < slot->tail->order) {
		heap_push(wheel, packet);
		return;
	}
	if (ktsn_packet_before(packet, slot->first))
		slot->first = packet;
	slot->tail->next = packet;
	slot->tail = packet;
}

static void wheel_push(void *queue, struct ktsn_shaper_packet *packet, int64_t now_tai_ns)
{
	struct wheel *wheel = queue;

	if (!wheel->levels_used)
		wheel->current_tai_ns =
			packet->txtime_tai_ns < now_tai_ns ? packet->txtime_tai_ns : now_tai_ns;
	if (packet->txtime_tai_ns < wheel->current_tai_ns)
		heap_push(wheel, packet);
	else
		place(wheel, packet);
}

static struct slot *first_slot(const struct wheel *wheel, unsigned int *level, unsigned int *digit)
{
	*level = (unsigned int)__builtin_ctz(wheel->levels_used);
	*digit = (unsigned int)__builtin_ctzll(wheel->slots_used[*level]);
	return (struct slot *)&wheel->slots[*level][*digit];
}

static struct ktsn_shaper_packet *wheel_first(const void *queue)
{
	const struct wheel *wheel = queue;
	struct ktsn_shaper_packet *first;
	unsigned int level, digit;

	if (!wheel->levels_used)
		return wheel->heap;
	first = first_slot(wheel, &level, &digit)->first;
	return wheel->heap && ktsn_packet_before(wheel->heap, first) ? wheel->heap : first;
}

/* What shares the slot of the packet that left goes where it belongs now. */
static void spread(struct wheel *wheel, struct ktsn_shaper_packet *list,
		   const struct ktsn_shaper_packet *left)
{
	while (list) {
		struct ktsn_shaper_packet *next = list->next;

		if (list != left)
			place(wheel, list);
		list = next;
	}
}

static struct ktsn_shaper_packet *wheel_pop(void *queue)
{
	struct wheel *wheel = queue;
	struct ktsn_shaper_packet *first = wheel_first(queue);
	unsigned int level, digit;
	struct slot *slot;

	if (first == wheel->heap) {
		wheel->heap = heap_rest(first->right);
		return first;
	}
	slot = first_slot(wheel, &level, &digit);
	wheel->current_tai_ns = first->txtime_tai_ns;
	if (level == 0 && first->next) {
		slot->head = slot->first = first->next;
		return first;
	}
	wheel->slots_used[level] &= ~(UINT64_C(1) << digit);
	if (!wheel->slots_used[level])
		wheel->levels_used &= ~(1U << level);
	if (slot->head != slot->tail)
		spread(wheel, slot->head, first);
	return first;
}

const struct bench_queue bench_queue_timing_wheel = {
	.name = "timing wheel",
	.create = wheel_create,
	.push = wheel_push,
	.first = wheel_first,
	.pop = wheel_pop,
	.destroy = free,
};
