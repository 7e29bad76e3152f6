/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of rings, charged to the pod that asked for it and to the node, from before the allocation until
 * the kernel has freed it. A process that has disconnected may keep its ring's descriptor and mapping. Such
 * memory stays charged, even after its pod was removed. The memory of removed pods has a separate sum of up
 * to a fourth of bytes_max, so that it takes nothing from other pods. Memory above that fourth is added to
 * the sum of the other pods, so that all memory has a bound.
 *
 * The kernel does not report the end of a map, so kept maps are polled: a few each time, ten times a second,
 * and when a pod asks for more than is left. Control thread.
 */
#ifndef KTSN_DAEMON_RING_CHARGES_H
#define KTSN_DAEMON_RING_CHARGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct quota;

struct ring_charge {
	struct quota *quota; /* counts as a user of it; NULL: its pod is gone */
	size_t bytes;
	uint32_t map_id;
	struct ring_charge *next; /* in the list of kept ones */
};

struct ring_charges {
	uint64_t bytes;         /* of the rings of existing pods */
	uint64_t removed_bytes; /* of the rings of removed pods */
	uint64_t bytes_max;     /* the limit of `bytes` */
	/* Rings that ktsnd has closed and that another process still holds, in the order of polling. */
	struct ring_charge *kept, **kept_end;
	uint32_t kept_count;
	int64_t poll_ms; /* time of the next poll */
};

void ring_charges_init(struct ring_charges *charges, uint64_t bytes_max);
void ring_charges_fini(struct ring_charges *charges);

/* Whether the pod and the node may have this many more bytes. A kept ring of the pod with that number is
 * charged already. map_id 0: a new ring. */
bool ring_charges_allow(struct ring_charges *charges, struct quota *quota, uint32_t map_id, size_t bytes);

/* Charges a ring of ktsnd; replaces a kept charge with that number. NULL when out of memory. */
struct ring_charge *ring_charge_make(struct ring_charges *charges, struct quota *quota, uint32_t map_id,
				     size_t bytes);

/* Keeps the charge of a ring that ktsnd has closed, until all other processes have closed the ring. */
void ring_charge_end(struct ring_charges *charges, struct ring_charge *charge);

/* Charges a ring that another ktsnd had closed. quota NULL: its pod is gone. */
void ring_charges_keep(struct ring_charges *charges, struct quota *quota, uint32_t map_id, size_t bytes);

/* The quota's pod is removed: its rings count in removed_bytes from now on. */
void ring_charges_pod_gone(struct ring_charges *charges, struct quota *quota);

/* Polls kept charges when due. Returns ms until it must be called again, or -1. */
int ring_charges_tick(struct ring_charges *charges);

#endif
