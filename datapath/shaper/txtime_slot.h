/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packets in a slot of the queue of transmit times: a few in any order, or many in order. Private to this
 * folder.
 *
 * Most slots hold one packet or a few. Adding another in front of them touches none of them, because they are
 * not in the cache; a pop searches for the earliest. With more than KTSN_SLOT_FEW packets that would take too
 * long: they are a list of those that came in order, whose head has the end of the list and a leftist heap of
 * the others.
 */
#ifndef KTSN_SHAPER_TXTIME_SLOT_H
#define KTSN_SHAPER_TXTIME_SLOT_H

#include "packet.h"

#include <stddef.h>

enum {
	KTSN_SLOT_FEW = 4,
	KTSN_SLOT_ORDERED = 7, /* instead of a number of packets */
	KTSN_SLOT_TAG_MASK = 7,
};

/* All zero: empty. */
struct ktsn_queue_slot {
	uintptr_t tagged; /* the first packet; the lowest bits are the number of packets, or
			     KTSN_SLOT_ORDERED */
};

/* Returns the first packet in the list, which need not be the earliest; NULL when the slot is empty. */
static inline struct ktsn_shaper_packet *ktsn_slot_list(const struct ktsn_queue_slot *slot)
{
	return (struct ktsn_shaper_packet *)(slot->tagged & ~(uintptr_t)KTSN_SLOT_TAG_MASK);
}

/* Adds a packet to an ordered slot, or orders a slot that has KTSN_SLOT_FEW packets. */
void ktsn_slot_push_ordered(struct ktsn_queue_slot *slot, struct ktsn_shaper_packet *packet);

static inline void ktsn_slot_push(struct ktsn_queue_slot *slot, struct ktsn_shaper_packet *packet)
{
	uintptr_t count = slot->tagged & KTSN_SLOT_TAG_MASK;

	if (count >= KTSN_SLOT_FEW) {
		ktsn_slot_push_ordered(slot, packet);
		return;
	}
	packet->next = ktsn_slot_list(slot);
	slot->tagged = (uintptr_t)packet | (count + 1);
}

/* Removes and returns the earliest packet; there must be one. */
struct ktsn_shaper_packet *ktsn_slot_pop(struct ktsn_queue_slot *slot);

#endif
