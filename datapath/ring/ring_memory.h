/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a ring: made, sealed and mapped by ktsnd, one for each application process.
 *
 * ktsnd's control thread. The descriptor goes to the application by SCM_RIGHTS.
 */
#ifndef KTSN_RING_MEMORY_H
#define KTSN_RING_MEMORY_H

#include "layout.h"

struct ktsn_ring_memory {
	void *address;
	size_t bytes;
	uint32_t slot_count;
	uint32_t slot_bytes;
	int fd;
	uint64_t inode; /* of the memfd: the same in every process */
};

/*
 * Makes a memfd for slot_count slots (rounded up to a multiple of 64, at most KTSN_RING_SLOTS_MAX) that
 * each hold payload_bytes, writes its header, marks all slots free, seals it against a change of size
 * and maps it. 0 or -errno; undone by ktsn_ring_memory_destroy().
 */
int ktsn_ring_memory_create(struct ktsn_ring_memory *memory, uint32_t slot_count, uint32_t payload_bytes);

/* Bytes of such a memory. */
size_t ktsn_ring_memory_bytes(uint32_t slot_count, uint32_t payload_bytes);

/*
 * Takes over the memory that an application hands back after ktsnd was restarted, as a stranger's: the
 * descriptor must be a memfd sealed like ours, of exactly the size that its header says. The descriptor
 * becomes the memory's on success only. 0; -EPROTO, -EPROTONOSUPPORT or -EBADMSG as
 * ktsn_ring_producer_init(); -EPERM as of ktsn_ring_memory_check(); -ENOMEM when it has more bytes than it may have: that is
 * known before any of it is mapped.
 */
int ktsn_ring_memory_adopt(struct ktsn_ring_memory *memory, int fd, uint64_t bytes_max);

/* Whether a descriptor is a memfd of ordinary pages, sealed like ours: 0 or -EPERM. Waits for nothing, whatever it is. */
int ktsn_ring_memory_check(int fd);

/* Inode of such a memfd, 0 when it cannot be told. */
uint64_t ktsn_ring_memory_inode(int fd);

void ktsn_ring_memory_destroy(struct ktsn_ring_memory *memory);

#endif
