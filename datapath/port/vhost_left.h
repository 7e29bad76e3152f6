/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the other side of a packed virtqueue has not fetched yet (VIRTIO 1.1, 2.7). DPDK keeps that to itself;
 * the ring is in memory that both sides see. Of a queue whose buffers are used in order, one descriptor each,
 * as virtio-user's transmit queue.
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

/* How many of the frames that were made available are not used. While this side makes none available. */
uint32_t vhost_left(const struct vhost_descriptor *ring, uint32_t count);

/* The place of the first of them. */
uint32_t vhost_oldest(const struct vhost_descriptor *ring, uint32_t count, uint32_t left);

#endif
