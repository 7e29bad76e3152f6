/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of rings, charged to the pod that asked for it and to the node, from before it is made until the
 * kernel has freed it. A process that hung up may keep its ring's descriptor and mapping: the memory is there
 * as long, and counts as long, also after its pod was removed. Then it counts apart, up to a fourth of what
 * all pods may have: what is left of pods that were removed takes nothing from those that there are. What is
 * more than that counts among theirs, so that the memory of all has a bound.
 *
 * The kernel tells nobody when a map ends, so kept ones are looked at: a few each time, ten times a second
 * and when a pod asks for more than is left. Control thread.
 */
#ifndef KTSN_DAEMON_RING_CHARGES_H
#define KTSN_DAEMON_RING_CHARGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct quota;

struct ring_charge {
	struct quota *quota; /* with a user; NULL: its pod is gone */
	size_t bytes;
	uint32_t map_id;
	struct ring_charge *next; /* among the kept */
};

struct ring_charges {
	uint64_t bytes;         /* of the rings of pods that there are */
	uint64_t removed_bytes; /* of those that were removed */
	uint64_t bytes_max;     /* what the former may take together */
	/* ktsnd has done with them, and somebody else has not: the one to be looked at first is the first. */
	struct ring_charge *kept, **kept_end;
	uint32_t kept_count;
	int64_t look_ms; /* when to look next */
};

void ring_charges_init(struct ring_charges *charges, uint64_t bytes_max);
void ring_charges_fini(struct ring_charges *charges);

/* Whether the pod, and the node, have room for so many bytes more; a ring of that number that the pod kept is
 * paid for already. map_id 0: it is yet to be made. */
bool ring_charges_allow(struct ring_charges *charges, struct quota *quota, uint32_t map_id, size_t bytes);

/* Charges a ring that ktsnd has, in the place of one of that number that was kept. NULL when out of
 * memory. */
struct ring_charge *ring_charge_make(struct ring_charges *charges, struct quota *quota, uint32_t map_id,
				     size_t bytes);

/* ktsnd has done with the ring: the charge goes on until all others have, too. */
void ring_charge_end(struct ring_charges *charges, struct ring_charge *charge);

/* One that another ktsnd had done with. quota NULL: its pod is gone. */
void ring_charges_keep(struct ring_charges *charges, struct quota *quota, uint32_t map_id, size_t bytes);

/* The quota's pod is removed: what it has and kept counts apart, for the node only. */
void ring_charges_pod_gone(struct ring_charges *charges, struct quota *quota);

/* Returns ms until it is due again, -1: not. */
int ring_charges_tick(struct ring_charges *charges);

#endif
