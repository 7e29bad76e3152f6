/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front end's side of vhost-user by hand, so that it can violate the protocol: one pair of queues in
 * memory that is shared with the back end. Numbers are those of QEMU's docs/interop/vhost-user.rst.
 */
#ifndef KTSN_TEST_HOSTILE_GUEST_WIRE_H
#define KTSN_TEST_HOSTILE_GUEST_WIRE_H

#include <linux/virtio_ring.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MEMORY_BYTES = 2 << 20,
	RING_SIZE = 256,
	/* Offsets in the memory; ring 1 is the ring in which the guest sends. */
	AT_RING = 0x8000, /* times the ring's index */
	AT_DESCRIPTORS = 0,
	AT_AVAILABLE = 0x2000,
	AT_USED = 0x4000,
	AT_BUFFERS = 0x100000,
	HEADER_BYTES = 12, /* struct virtio_net_hdr_v1 */
};

enum request {
	GET_FEATURES = 1,
	SET_FEATURES = 2,
	SET_OWNER = 3,
	SET_MEM_TABLE = 5,
	SET_VRING_NUM = 8,
	SET_VRING_ADDR = 9,
	SET_VRING_BASE = 10,
	GET_VRING_BASE = 11,
	SET_VRING_KICK = 12,
	SET_VRING_CALL = 13,
	GET_PROTOCOL_FEATURES = 15,
	SET_PROTOCOL_FEATURES = 16,
	SET_VRING_ENABLE = 18,
};

/* Used by the process's only thread. Failures end the process. */
struct wire {
	int fd;
	int memory_fd;
	int kick_fd; /* of ring 1 */
	uint8_t *memory;
};

/* Passes a file as the guest's memory of that size. */
void wire_memory_pass(const struct wire *wire, int fd, uint64_t bytes);

/* Reports whether the back end still answers. */
int wire_is_served(const struct wire *wire);

/* Sends the message unchanged; fd_to_pass -1: none. */
void wire_send(const struct wire *wire, uint32_t request, const void *payload, uint32_t bytes,
	       int fd_to_pass);

/* Connects and sets everything up like a good front end. */
void wire_begin(struct wire *wire, const char *path);

/* Stops both rings as when the guest is reset, and sets them up again. */
void wire_restart(struct wire *wire);

/* Only connects. */
void wire_connect(struct wire *wire, const char *path);

struct vring_desc *wire_descriptors(const struct wire *wire);
struct vring_avail *wire_available(const struct wire *wire);

/* Makes this many descriptors available, beginning with `first`, and kicks. */
void wire_offer(const struct wire *wire, uint16_t first, uint16_t count);

#endif
