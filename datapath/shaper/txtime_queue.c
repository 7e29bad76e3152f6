/* SPDX-License-Identifier: Apache-2.0 */
#include "txtime_queue.h"

#include "pairing_heap.h"

#include <string.h>

void ktsn_txtime_queue_init(struct ktsn_txtime_queue *queue)
{
	memset(queue, 0, sizeof(*queue));
}

/* The highest digit in which a time, which is not before `current`, differs from it. */
static unsigned int level_of(const struct ktsn_txtime_queue *queue, int64_t txtime_tai_ns)
{
	uint64_t difference = (uint64_t)(txtime_tai_ns ^ queue->current_tai_ns);

	return difference ? (63 - (unsigned int)__builtin_clzll(difference)) / KTSN_WHEEL_DIGIT_BITS : 0;
}

static unsigned int digit_of(int64_t txtime_tai_ns, unsigned int level)
{
	return (unsigned int)(txtime_tai_ns >> (level * KTSN_WHEEL_DIGIT_BITS)) & (KTSN_WHEEL_SLOTS - 1);
}

static void heap_push(struct ktsn_txtime_queue *queue, struct ktsn_shaper_packet *packet)
{
	queue->heap = ktsn_pairing_heap_push(queue->heap, packet);
}

static void slot_begin(struct ktsn_txtime_queue *queue, unsigned int level, unsigned int digit,
		       struct ktsn_shaper_packet *packet)
{
	queue->slots[level][digit] = (struct ktsn_wheel_slot){packet, packet, packet};
	queue->slots_used[level] |= UINT64_C(1) << digit;
	queue->levels_used |= 1U << level;
}

static void wheel_push(struct ktsn_txtime_queue *queue, struct ktsn_shaper_packet *packet)
{
	unsigned int level = level_of(queue, packet->txtime_tai_ns);
	unsigned int digit = digit_of(packet->txtime_tai_ns, level);
	struct ktsn_wheel_slot *slot = &queue->slots[level][digit];

	packet->next = NULL;
	if (!(queue->slots_used[level] >> digit & 1)) {
		slot_begin(queue, level, digit, packet);
		return;
	}
	/* All of a slot of level 0 have the same time, and leave in the order of the list. */
	if (level == 0 && packet->order < slot->tail->order) {
		heap_push(queue, packet);
		return;
	}
	if (ktsn_packet_before(packet, slot->first))
		slot->first = packet;
	slot->tail->next = packet;
	slot->tail = packet;
}

void ktsn_txtime_queue_push(struct ktsn_txtime_queue *queue, struct ktsn_shaper_packet *packet,
			    int64_t now_tai_ns)
{
	queue->count++;
	if (!queue->levels_used)
		queue->current_tai_ns =
			packet->txtime_tai_ns < now_tai_ns ? packet->txtime_tai_ns : now_tai_ns;
	if (packet->txtime_tai_ns < queue->current_tai_ns)
		heap_push(queue, packet);
	else
		wheel_push(queue, packet);
}

/* The slot of the wheel's first packet; the wheel is not empty. */
static struct ktsn_wheel_slot *first_slot(const struct ktsn_txtime_queue *queue, unsigned int *level,
					  unsigned int *digit)
{
	*level = (unsigned int)__builtin_ctz(queue->levels_used);
	*digit = (unsigned int)__builtin_ctzll(queue->slots_used[*level]);
	return (struct ktsn_wheel_slot *)&queue->slots[*level][*digit];
}

struct ktsn_shaper_packet *ktsn_txtime_queue_first(const struct ktsn_txtime_queue *queue)
{
	struct ktsn_shaper_packet *heap = queue->heap, *wheel;
	unsigned int level, digit;

	if (!queue->levels_used)
		return heap;
	wheel = first_slot(queue, &level, &digit)->first;
	return heap && ktsn_packet_before(heap, wheel) ? heap : wheel;
}

static void slot_end(struct ktsn_txtime_queue *queue, unsigned int level, unsigned int digit)
{
	queue->slots_used[level] &= ~(UINT64_C(1) << digit);
	if (!queue->slots_used[level])
		queue->levels_used &= ~(1U << level);
}

/* Moves what shares the slot with its first packet to where it belongs once that one has left. */
static void slot_spread(struct ktsn_txtime_queue *queue, struct ktsn_shaper_packet *list,
			const struct ktsn_shaper_packet *left)
{
	while (list) {
		struct ktsn_shaper_packet *next = list->next;

		if (list != left)
			wheel_push(queue, list);
		list = next;
	}
}

static struct ktsn_shaper_packet *wheel_pop(struct ktsn_txtime_queue *queue)
{
	unsigned int level, digit;
	struct ktsn_wheel_slot *slot = first_slot(queue, &level, &digit);
	struct ktsn_shaper_packet *first = slot->first;

	queue->current_tai_ns = first->txtime_tai_ns;
	if (level == 0 && first->next) {
		slot->head = slot->first = first->next;
		return first;
	}
	slot_end(queue, level, digit);
	if (slot->head != slot->tail)
		slot_spread(queue, slot->head, first);
	return first;
}

struct ktsn_shaper_packet *ktsn_txtime_queue_pop(struct ktsn_txtime_queue *queue)
{
	struct ktsn_shaper_packet *first = ktsn_txtime_queue_first(queue);

	queue->count--;
	if (first != queue->heap)
		return wheel_pop(queue);
	queue->heap = ktsn_pairing_heap_pop(first);
	return first;
}
