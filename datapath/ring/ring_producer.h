/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The application's side of the ring. Used by libktsn: no system calls, no libc but memcpy.
 *
 * Any number of threads may use one ktsn_ring_producer at once. A send is
 *
 *   claim a slot -> write the payload -> publish -> doorbell_due? ring it
 */
#ifndef KTSN_RING_PRODUCER_H
#define KTSN_RING_PRODUCER_H

#include "layout.h"

#include <stdbool.h>

struct ktsn_ring_producer {
	struct ktsn_ring_header *header;
	uint32_t slot_count;
	uint32_t slot_bytes;
	uint32_t slots_offset;
	uint32_t payload_capacity_bytes; /* of one slot */
};

/* A message without its payload; see struct ktsn_ring_slot. */
struct ktsn_ring_message {
	uint32_t flow;
	uint32_t destination;
	uint32_t payload_bytes;
	int64_t txtime_ns;
	int64_t called_tai_ns; /* 0 unless ktsn_ring_traced() */
	/* Of a flow of frames; else 0. */
	uint16_t ethertype_be;
	uint8_t priority;
};

/* Checks memory that ktsnd passed. 0, -EPROTO when it is not a ring, -EPROTONOSUPPORT when it is one
 * of another version, -EBADMSG when its numbers do not fit its size. Keeps pointing into `memory`. */
int ktsn_ring_producer_init(struct ktsn_ring_producer *ring, void *memory, size_t bytes);

/* Takes a free slot. 0, or -EAGAIN when none is free. */
int ktsn_ring_claim(struct ktsn_ring_producer *ring, uint32_t *slot);

/* Gives a claimed slot back unused. */
void ktsn_ring_unclaim(struct ktsn_ring_producer *ring, uint32_t slot);

/* Where the payload of a claimed slot goes, payload_capacity_bytes of room. */
uint8_t *ktsn_ring_payload(struct ktsn_ring_producer *ring, uint32_t slot);

/* Hands a claimed and filled slot to ktsnd. */
void ktsn_ring_publish(struct ktsn_ring_producer *ring, uint32_t slot,
		       const struct ktsn_ring_message *message);

/* Whether the network of that bit takes no messages with a transmit time now. */
static inline bool ktsn_ring_refuses(const struct ktsn_ring_producer *ring, uint64_t network_bit)
{
	return atomic_load_explicit(&ring->header->refused, memory_order_relaxed) & network_bit;
}

/* Before the ring is handed to another ktsnd: one that knows of no such networks would leave it so. */
static inline void ktsn_ring_refuse_none(struct ktsn_ring_producer *ring)
{
	atomic_store_explicit(&ring->header->refused, 0, memory_order_relaxed);
}

/* How often the longest payload of a destination became less. */
static inline uint32_t ktsn_ring_mtus_lowered(const struct ktsn_ring_producer *ring)
{
	return atomic_load_explicit(&ring->header->mtus_lowered, memory_order_relaxed);
}

/* Whether ktsnd wants to know when send calls begin. */
bool ktsn_ring_traced(const struct ktsn_ring_producer *ring);

/* Whether ktsnd asked to be woken for a message of that time. Call after publish. */
bool ktsn_ring_doorbell_due(struct ktsn_ring_producer *ring, enum ktsn_clock clock, int64_t txtime_ns);

/* Bytes of the flow's messages that ktsnd is done with, since the ring was made. */
uint64_t ktsn_ring_released_bytes(const struct ktsn_ring_producer *ring, uint32_t flow);

/* Whether so many slots are free now. */
bool ktsn_ring_has_space(const struct ktsn_ring_producer *ring, uint32_t slots);

/* Announces that the flow waits for space. The caller checks for space once more after that. */
void ktsn_ring_space_poll(struct ktsn_ring_producer *ring, uint32_t flow);

/* A message that was dropped, as it stands in its slot. */
struct ktsn_ring_report {
	uint32_t slot;
	int64_t txtime_ns;
	uint8_t code;         /* SO_EE_CODE_TXTIME_... */
	const uint8_t *bytes; /* the frame: headers and payload */
	size_t bytes_count;
};

/* Whether there is an unread report of that flow; and takes the oldest. 0, or -EAGAIN when there is none. */
bool ktsn_ring_report_waits(struct ktsn_ring_producer *ring, uint32_t flow);
int ktsn_ring_report_take(struct ktsn_ring_producer *ring, uint32_t flow, struct ktsn_ring_report *report);

/* Frees the slot of a report that was taken. The caller wakes those of the process that wait for space. */
void ktsn_ring_report_done(struct ktsn_ring_producer *ring, uint32_t slot);

#endif
