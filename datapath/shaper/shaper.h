/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a frame leaves: holds packets until they may go, and says which goes next.
 *
 * Third stage of a packet's way (ring -> frame -> shaper -> port). Pure and in virtual time: no system
 * calls, no clock (`now` is an argument), no allocation (the caller gives the memory). One thread at a
 * time. All times are CLOCK_TAI nanoseconds.
 *
 * A strategy is a table of operations; today there is `txtime`, order by transmit time. The Time-Aware
 * Shaper of IEEE 802.1Q-2022 clause 8.6.8.4 takes the same place.
 */
#ifndef KTSN_SHAPER_SHAPER_H
#define KTSN_SHAPER_SHAPER_H

#include <stddef.h>
#include <stdint.h>

/* "Nothing will leave unless something is enqueued." */
#define KTSN_SHAPER_NEVER INT64_MAX

/*
 * A packet as the shaper sees it. Embedded in the caller's own structure, owned by the shaper from
 * enqueue to dequeue.
 */
struct ktsn_shaper_packet {
	int64_t txtime_tai_ns; /* not before this */
	uint64_t order;        /* breaks ties: lower leaves first */
	uint32_t wire_bytes;   /* see ktsn_frame_wire_bytes() */
	uint8_t traffic_class; /* 0 to 7; higher is more important */
};

struct ktsn_shaper;

/* Bytes of memory that a shaper for up to `capacity` packets needs, aligned for any type. */
size_t ktsn_shaper_bytes(uint32_t capacity);

/* Prepares `memory` (ktsn_shaper_bytes(capacity) bytes, the caller's) as an empty shaper that orders by
 * transmit time. The result points into `memory`; nothing has to be undone. */
struct ktsn_shaper *ktsn_shaper_init(void *memory, uint32_t capacity);

/* Takes the packet. 0, or -ENOBUFS when `capacity` packets are held already (the packet stays the
 * caller's). A transmit time in the past is taken: the packet is due at once. */
int ktsn_shaper_enqueue(struct ktsn_shaper *shaper, struct ktsn_shaper_packet *packet, int64_t now_tai_ns);

/* The earliest time at which a packet may leave, at `now` or later; KTSN_SHAPER_NEVER when none waits. */
int64_t ktsn_shaper_next(const struct ktsn_shaper *shaper, int64_t now_tai_ns);

/* Gives back the packet that may leave at `now`, or NULL when none may. Never before its transmit time. */
struct ktsn_shaper_packet *ktsn_shaper_dequeue(struct ktsn_shaper *shaper, int64_t now_tai_ns);

/* Packets held. */
uint32_t ktsn_shaper_pending(const struct ktsn_shaper *shaper);

#endif
