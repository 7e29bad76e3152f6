/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a ring: created and mapped by ktsnd, one for each application process.
 *
 * ktsnd only. The descriptor goes to the application with SCM_RIGHTS. ktsnd keeps its own copy of size and
 * geometry and never reads them from the memory.
 */
#ifndef KTSN_RING_MEMORY_H
#define KTSN_RING_MEMORY_H

#include "layout.h"

#include <stdbool.h>

/* The layout of a ring. */
struct ktsn_ring_geometry {
	uint32_t slot_count; /* a multiple of KTSN_RING_WORD_BITS */
	uint32_t slot_bytes; /* a multiple of the cache line */
};

struct ktsn_ring_memory {
	void *address;
	size_t bytes;
	struct ktsn_ring_geometry geometry;
	int fd;
	uint32_t id; /* of the map: the same in every process */
};

/* The geometry for slot_count slots (rounded up to a multiple of 64) that each hold payload_bytes. */
struct ktsn_ring_geometry ktsn_ring_geometry_make(uint32_t slot_count, uint32_t payload_bytes);
/* Whether a ring can have that geometry. */
bool ktsn_ring_geometry_valid(struct ktsn_ring_geometry geometry);
/* Bytes to be mapped, in whole pages. */
size_t ktsn_ring_memory_bytes(struct ktsn_ring_geometry geometry);

/* Makes the memory of a valid geometry, writes its header, marks all slots free and maps it. 0 or -errno
 * (ktsn_ring_map_create()); undone by ktsn_ring_memory_destroy(). */
int ktsn_ring_memory_create(struct ktsn_ring_memory *memory, struct ktsn_ring_geometry geometry);

/*
 * Takes over memory that another ktsnd created, if this one would create the same for that geometry. Returns
 * 0; -EPERM if the descriptor is something else, which is checked before any of it is mapped; -EPROTO,
 * -EPROTONOSUPPORT or -EBADMSG as ktsn_ring_producer_init(). The memory owns the descriptor on success only.
 */
int ktsn_ring_memory_adopt(struct ktsn_ring_memory *memory, int fd, struct ktsn_ring_geometry geometry);

/* The descriptor stays open, and the caller owns it again. */
void ktsn_ring_memory_unmap(struct ktsn_ring_memory *memory);
void ktsn_ring_memory_destroy(struct ktsn_ring_memory *memory);

#endif
