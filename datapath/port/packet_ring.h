/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transmit ring of DPDK's net_af_packet, through a second mapping of the same socket. The kernel sends
 * the slots in order and stops at the first that the device does not take (no carrier, or a full queue). DPDK
 * counts such frames as sent, and the kernel would send them with the next call, however late. This module
 * finds and withdraws them.
 *
 * Thread: _open and _close as create and destroy of the port, all others in the loop thread. The kernel reads
 * the ring only during a send in that thread.
 */
#ifndef KTSN_PORT_PACKET_RING_H
#define KTSN_PORT_PACKET_RING_H

#include <stddef.h>
#include <stdint.h>

struct packet_ring {
	uint8_t *slots;       /* NULL: the device has no such ring */
	uint32_t slot_bytes;  /* a multiple of the page size, or a divisor of it */
	uint32_t slot_count;  /* a power of two */
	uint32_t next;        /* where DPDK puts the next frame */
	void *mapping;        /* receive and transmit ring, which the kernel only maps together */
	size_t mapping_bytes; /* of both */
};

/* Finds the packet socket of this process that is bound to the interface, and maps its rings, which DPDK
 * created with equal size. 0 or -errno. */
int packet_ring_open(struct packet_ring *ring, const char *interface, uint32_t slot_bytes,
		     uint32_t slot_count);
void packet_ring_close(struct packet_ring *ring);

/*
 * Must be called after each send that put `count` frames into the ring. Returns how many of these, always the
 * last ones, did not leave. They never will, because the kernel skips their slots.
 */
uint32_t packet_ring_withdraw(struct packet_ring *ring, uint32_t count);

#endif
