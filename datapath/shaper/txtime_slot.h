/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What shares a slot of the queue of transmit times: a few packets in any order, or many in order. Private to
 * this folder.
 *
 * Most slots hold one packet or a few. To put one more in front of those touches none of them, which are in
 * no cache; the earliest is looked for among them when it is taken. Of more than KTSN_SLOT_FEW that would
 * take too long: they are a list of those that came in order, whose first has the end of the list and a
 * leftist heap of the others.
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
	uintptr_t tagged; /* the first packet, and in the lowest bits how many there are, or that they are in
			     order */
};

/* Its first packet, which need not be the earliest; NULL: it is empty. */
static inline struct ktsn_shaper_packet *ktsn_slot_some(const struct ktsn_queue_slot *slot)
{
	return (struct ktsn_shaper_packet *)(slot->tagged & ~(uintptr_t)KTSN_SLOT_TAG_MASK);
}

/* More than a few come, or come to those that are in order. */
void ktsn_slot_push_ordered(struct ktsn_queue_slot *slot, struct ktsn_shaper_packet *packet);

static inline void ktsn_slot_push(struct ktsn_queue_slot *slot, struct ktsn_shaper_packet *packet)
{
	uintptr_t count = slot->tagged & KTSN_SLOT_TAG_MASK;

	if (count >= KTSN_SLOT_FEW) {
		ktsn_slot_push_ordered(slot, packet);
		return;
	}
	packet->next = ktsn_slot_some(slot);
	slot->tagged = (uintptr_t)packet | (count + 1);
}

/* Takes the earliest; there must be one. */
struct ktsn_shaper_packet *ktsn_slot_pop(struct ktsn_queue_slot *slot);

#endif
