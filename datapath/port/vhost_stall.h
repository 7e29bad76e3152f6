/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles frames that Open vSwitch does not fetch, because it was stopped or got no processor. While it
 * fetches nothing the port takes no more. Frames that are already in the queue cannot be removed while Open
 * vSwitch is connected, so they are overwritten before they are stale, with frames that no bridge forwards.
 *
 *   0          1          2                        3          4          5   checks, at --stale-after 100 ms
 *   |----------|----------|------------------------|----------|----------|
 *   oldest     same:      the port takes           overwritten,          stale
 *   frame      stalled    no more frames           here or one later
 *
 * The queue is checked five times within stale_after_ns, and at least every 20 ms. So a stall is detected at
 * most two checks after the oldest frame was queued, and this frame is overwritten one to three checks before
 * it is stale. A check is late by as much as the thread waits for a processor.
 *
 * ovs-vswitchd can write the queue: an address or a length in it is used only if it is within one of ktsnd's
 * own buffers, whose addresses are stored outside the memory that both share.
 *
 * Thread: DPDK's interrupt thread, except _begin, _end and vhost_stalled.
 */
#ifndef KTSN_PORT_VHOST_STALL_H
#define KTSN_PORT_VHOST_STALL_H

#include "vhost_left.h"

#include <stdbool.h>
#include <stdint.h>

/* Where the frames of this side may be, each after a VIRTIO header. */
struct vhost_buffers {
	const uintptr_t *first; /* address of each buffer, in ascending order */
	uint32_t count;
	uint32_t bytes; /* of each buffer */
};

struct vhost_stall {
	/* The transmit queue, NULL: Open vSwitch is not connected. */
	struct vhost_descriptor *(*ring)(void *context);
	/* The last `frames` that were taken are withdrawn. `astray` of them were not overwritten: their
	 * descriptors do not point to a buffer. */
	void (*withdrawn)(uint32_t frames, uint32_t astray, void *context);
	void *context;
	uint32_t ring_count;
	struct vhost_buffers buffers;
	int64_t stale_after_ns;

	uint32_t oldest;      /* index of the frame that was next at the last check */
	int64_t since_ns;     /* CLOCK_MONOTONIC, when that frame was first next */
	uint32_t overwritten; /* frames from `oldest` on that were overwritten and withdrawn */
	_Atomic bool stalled;
};

/* Starts the checks of the queue. 0 or -errno. */
int vhost_stall_begin(struct vhost_stall *stall);
void vhost_stall_end(struct vhost_stall *stall);

/* Any thread. */
static inline bool vhost_stalled(const struct vhost_stall *stall)
{
	return stall->stalled;
}

#endif
