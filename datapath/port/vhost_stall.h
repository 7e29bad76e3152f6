/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that Open vSwitch does not fetch: it was stopped, or got no processor. While it fetches nothing the
 * port takes no more. Frames that are in the queue by then are overwritten before they are stale, because
 * nobody can take them back while Open vSwitch is connected: it gets frames that no bridge forwards.
 *
 *   0          1          2                        3          4          5   looks, at --stale-after 100 ms
 *   |----------|----------|------------------------|----------|----------|
 *   oldest     same:      the port takes           overwritten,          stale
 *   frame      stalled    no more frames           here or one later
 *
 * The queue is looked at five times within stale_after_ns, and at least every 20 ms. So a standstill is
 * noticed at most two looks after the oldest frame was queued, and this frame is overwritten one look to
 * three looks before it is stale. The looks are late by as much as the thread waits for a processor.
 *
 * ovs-vswitchd can write the queue: an address or a length in it is used only if it lies within one of
 * ktsnd's own buffers, whose places are kept apart from the memory that both share.
 *
 * Thread: DPDK's interrupt thread, but for _begin, _end and vhost_stalled.
 */
#ifndef KTSN_PORT_VHOST_STALL_H
#define KTSN_PORT_VHOST_STALL_H

#include "vhost_left.h"

#include <stdbool.h>
#include <stdint.h>

/* Where the frames of this side may lie, with VIRTIO's header in front of each. */
struct vhost_buffers {
	const uintptr_t *first; /* address of each buffer, in ascending order */
	uint32_t count;
	uint32_t bytes; /* of each buffer */
};

struct vhost_stall {
	/* The transmit queue, NULL: nobody is connected. */
	struct vhost_descriptor *(*ring)(void *context);
	/* The last `frames` that were taken are withdrawn. `astray` of them are not overwritten: their
	 * descriptors point elsewhere than to a buffer. */
	void (*withdrawn)(uint32_t frames, uint32_t astray, void *context);
	void *context;
	uint32_t ring_count;
	struct vhost_buffers buffers;
	int64_t stale_after_ns;

	uint32_t oldest;      /* place of the frame that was next at the last look */
	int64_t since_ns;     /* CLOCK_MONOTONIC, when it was first seen there */
	uint32_t overwritten; /* frames from `oldest` on; they have been withdrawn */
	_Atomic bool stalled;
};

/* Looks at the queue from now on. 0 or -errno. */
int vhost_stall_begin(struct vhost_stall *stall);
void vhost_stall_end(struct vhost_stall *stall);

/* Any thread. */
static inline bool vhost_stalled(const struct vhost_stall *stall)
{
	return stall->stalled;
}

#endif
