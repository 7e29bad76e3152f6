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
	uint32_t payload_capacity_bytes; /* per slot */
};

/* A message without its payload; see struct ktsn_ring_slot. */
struct ktsn_ring_message {
	uint32_t flow;
	uint32_t destination;
	uint32_t payload_bytes;
	int64_t txtime_ns;
	int64_t called_tai_ns; /* 0 unless ktsn_ring_traced() */
	/* For a flow of frames; else 0. */
	uint16_t ethertype_be;
	uint8_t priority;
	uint8_t stamps; /* KTSN_STAMP_... */
	uint32_t stamp_number;
};

/* Checks memory from ktsnd. 0, -EPROTO when it is not a ring, -EPROTONOSUPPORT when it is a ring of another
 * version, -EBADMSG when its geometry does not fit its size. Keeps pointers into `memory`. */
int ktsn_ring_producer_init(struct ktsn_ring_producer *ring, void *memory, size_t bytes);

/* Takes a free slot. 0, or -EAGAIN when none is free. */
int ktsn_ring_claim(struct ktsn_ring_producer *ring, uint32_t *slot);

/* Frees a claimed slot that was not used. */
void ktsn_ring_unclaim(struct ktsn_ring_producer *ring, uint32_t slot);

/* The buffer for the payload of a claimed slot, of payload_capacity_bytes. */
uint8_t *ktsn_ring_payload(struct ktsn_ring_producer *ring, uint32_t slot);

/* Hands a claimed and filled slot to ktsnd. */
void ktsn_ring_publish(struct ktsn_ring_producer *ring, uint32_t slot,
		       const struct ktsn_ring_message *message);

/* Whether the network with that bit takes no messages with a transmit time now. */
static inline bool ktsn_ring_refuses(const struct ktsn_ring_producer *ring, uint64_t network_bit)
{
	return atomic_load_explicit(&ring->header->refused, memory_order_relaxed) & network_bit;
}

/* Called before the ring is handed to another ktsnd, which may be older and never clear `refused`. */
static inline void ktsn_ring_refuse_none(struct ktsn_ring_producer *ring)
{
	atomic_store_explicit(&ring->header->refused, 0, memory_order_relaxed);
}

/* How often the longest payload of a destination became smaller. */
static inline uint32_t ktsn_ring_mtus_lowered(const struct ktsn_ring_producer *ring)
{
	return atomic_load_explicit(&ring->header->mtus_lowered, memory_order_relaxed);
}

/* Whether messages shall contain when their send calls began. */
bool ktsn_ring_traced(const struct ktsn_ring_producer *ring);

/* Whether ktsnd must be woken for a message with that transmit time. Call after publish. */
bool ktsn_ring_doorbell_due(struct ktsn_ring_producer *ring, enum ktsn_clock clock, int64_t txtime_ns);

/* Charged bytes of all messages of the flow that ktsnd has released since the ring was created. */
uint64_t ktsn_ring_released_bytes(const struct ktsn_ring_producer *ring, uint32_t flow);

/* Whether at least that many slots are free now. */
bool ktsn_ring_has_space(const struct ktsn_ring_producer *ring, uint32_t slots);

/* Announces that the flow waits for space. The caller must check for space again afterwards. */
void ktsn_ring_space_poll(struct ktsn_ring_producer *ring, uint32_t flow);

/* A message that was dropped or has time stamps, in its slot. */
struct ktsn_ring_report {
	uint32_t slot;
	int64_t txtime_ns;
	uint8_t code;   /* SO_EE_CODE_TXTIME_..., or KTSN_REPORT_STAMPS, for which the next four are */
	uint8_t stamps; /* those not read yet */
	uint32_t stamp_number;
	int64_t called_tai_ns, departed_tai_ns;
	const uint8_t *bytes; /* the frame: headers and payload */
	size_t bytes_count;
};

/* Whether there is an unread report of that flow. */
bool ktsn_ring_report_waits(struct ktsn_ring_producer *ring, uint32_t flow);

/* Takes the oldest unread report of that flow. 0, or -EAGAIN when there is none. */
int ktsn_ring_report_take(struct ktsn_ring_producer *ring, uint32_t flow, struct ktsn_ring_report *report);

/* Returns a report that was taken, with these time stamps left to read. */
void ktsn_ring_report_keep(struct ktsn_ring_producer *ring, uint32_t slot, uint8_t stamps);

/* Frees the slot of a report that was taken. The caller wakes the process's threads that wait for space. */
void ktsn_ring_report_done(struct ktsn_ring_producer *ring, uint32_t slot);

#endif
