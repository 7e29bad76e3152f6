/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that the other side of a packed virtqueue has not fetched yet (VIRTIO 1.1, 2.7). DPDK has no call
 * for that, but the ring is in memory that both sides share. Only for a queue whose buffers are used in
 * order, one descriptor each, such as virtio-user's transmit queue.
 */
#ifndef KTSN_PORT_VHOST_LEFT_H
#define KTSN_PORT_VHOST_LEFT_H

#include <stdint.h>

/* A descriptor, in the layout of the standard; x86-64 has its byte order. */
struct vhost_descriptor {
	uint64_t address;
	uint32_t bytes;
	uint16_t id;
	_Atomic uint16_t flags;
};

enum {
	VHOST_AVAILABLE = 1 << 7,
	VHOST_USED = 1 << 15,
};

/* How many available frames are not used yet. Called while this side makes no frames available. */
uint32_t vhost_left(const struct vhost_descriptor *ring, uint32_t count);

/* The index of the first of these frames. */
uint32_t vhost_oldest(const struct vhost_descriptor *ring, uint32_t count, uint32_t left);

#endif
