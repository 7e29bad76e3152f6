/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receive ring in plain memory, and the kernel's side of it.
 */
#ifndef KTSN_TEST_RECEIVE_RING_H
#define KTSN_TEST_RECEIVE_RING_H

#include "receive_reader.h"

#include <stdlib.h>
#include <string.h>

enum { RECEIVE_RING_BYTES = 4096, RECEIVE_RING_BUSY = 31, RECEIVE_RING_DISCARD = 30 };

struct receive_ring {
	_Atomic uint64_t consumer, producer;
	_Alignas(8) uint8_t records[2 * RECEIVE_RING_BYTES];
	struct ktsn_receive_reader reader;
};

/* Unlike in the kernel's mapping, the second half is separate memory. */
static inline void receive_ring_bytes_put(struct receive_ring *ring, uint64_t at, const void *bytes,
					  size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t place = (at + i) % RECEIVE_RING_BYTES;

		ring->records[place] = ring->records[place + RECEIVE_RING_BYTES] =
			((const uint8_t *)bytes)[i];
	}
}

static inline void receive_ring_init(struct receive_ring *ring, uint64_t position)
{
	memset(ring, 0, sizeof(*ring));
	atomic_store(&ring->consumer, position);
	atomic_store(&ring->producer, position);
	if (ktsn_receive_reader_init(&ring->reader, &ring->consumer, &ring->producer, ring->records,
				     RECEIVE_RING_BYTES))
		abort();
}

static inline void receive_ring_length_put(struct receive_ring *ring, uint64_t at, uint32_t length)
{
	receive_ring_bytes_put(ring, at, &length, sizeof(length));
}

/* Reserves a record as the kernel does: marks it busy and advances the producer's position. Returns its
 * position. */
static inline uint64_t receive_ring_reserve(struct receive_ring *ring, uint32_t length)
{
	uint64_t at = atomic_load(&ring->producer);

	receive_ring_length_put(ring, at, length | 1U << RECEIVE_RING_BUSY);
	atomic_store(&ring->producer, at + ((length + 8 + 7) & ~7U));
	return at;
}

/* Writes a datagram into a record that is `spare` bytes longer. */
static inline void receive_ring_put(struct receive_ring *ring, struct ktsn_receive_header header,
				    const void *payload, uint16_t payload_bytes, uint32_t spare)
{
	uint32_t length = (uint32_t)sizeof(header) + payload_bytes + spare;
	uint64_t at = receive_ring_reserve(ring, length);

	header.payload_bytes = payload_bytes;
	receive_ring_bytes_put(ring, at + 8, &header, sizeof(header));
	receive_ring_bytes_put(ring, at + 8 + sizeof(header), payload, payload_bytes);
	receive_ring_length_put(ring, at, length);
}

#endif
