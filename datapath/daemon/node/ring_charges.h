/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of rings, charged to the pod that asked for it and to the node, from before the allocation until
 * the kernel has freed it. A process that hung up may keep its ring's descriptor and mapping. The memory then
 * still exists and is still charged, also after its pod was removed. The memory of removed pods has a sum of
 * its own, up to a fourth of bytes_max, so that it takes nothing from other pods. Memory above that fourth is
 * added to the sum of the other pods, so that all memory has a bound.
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
	struct quota *quota; /* with a user; NULL: its pod is gone */
	size_t bytes;
	uint32_t map_id;
	struct ring_charge *next; /* among the kept */
};

struct ring_charges {
	uint64_t bytes;         /* of the rings of existing pods */
	uint64_t removed_bytes; /* of the rings of removed pods */
	uint64_t bytes_max;     /* the limit of `bytes` */
	/* Rings that ktsnd has closed and that another process still holds, in the order of polling. */
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

/* ktsnd has closed the ring: it stays charged until all other holders have closed it, too. */
void ring_charge_end(struct ring_charges *charges, struct ring_charge *charge);

/* Charges a ring that another ktsnd had closed. quota NULL: its pod is gone. */
void ring_charges_keep(struct ring_charges *charges, struct quota *quota, uint32_t map_id, size_t bytes);

/* The quota's pod is removed: its rings count in removed_bytes from now on. */
void ring_charges_pod_gone(struct ring_charges *charges, struct quota *quota);

/* Returns ms until it is due again, -1: not. */
int ring_charges_tick(struct ring_charges *charges);

#endif
