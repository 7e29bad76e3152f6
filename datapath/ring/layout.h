/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared memory between one application process and ktsnd, byte by byte (docs/ring-layout.md).
 *
 * First stage of a packet's way. The memory is a memfd that ktsnd made and sealed against shrinking,
 * growing and further sealing, so that a mapping of it can never fault. It holds
 *
 *   header | ready bitmap | free bitmap | slot 0 | slot 1 | ... | slot n-1
 *
 * Not a queue: messages leave in the order of their transmit times, so slots become free in any order,
 * and a thread that is interrupted half-way through a send must not hold up the others. A producer takes
 * a slot by clearing its bit in `free`, fills it, and sets its bit in `ready`; the consumer takes all
 * ready bits at once. The consumer is wait-free, producers are lock-free.
 *
 *   slot state   FREE --claim--> WRITING --publish--> READY --depart--> DEPARTING --release--> FREE
 *                      producer           producer           consumer             consumer
 *
 * The state decides, the bitmaps only say where to look: a slot belongs to the producer that turned it from
 * FREE to WRITING, whatever its bits say. So a ktsnd that died at any point leaves nothing ambiguous.
 *
 * A slot stays READY while ktsnd holds its message, so a successor of a killed ktsnd finds it again; one
 * that is DEPARTING may or may not have left and is never sent twice.
 *
 * Threads: any number of producer threads in one process, one consumer thread in ktsnd. The consumer
 * believes nothing that stands here (ring_consumer.h).
 */
#ifndef KTSN_RING_LAYOUT_H
#define KTSN_RING_LAYOUT_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define KTSN_RING_MAGIC UINT64_C(0x676e69726e73746b) /* "ktsnring", little endian */

enum {
	KTSN_RING_VERSION = 1,
	KTSN_RING_SLOTS_MAX = 4096,
	KTSN_RING_WORD_BITS = 64,
	KTSN_RING_WORDS = KTSN_RING_SLOTS_MAX / KTSN_RING_WORD_BITS,
	KTSN_CACHE_LINE_BYTES = 64,
	KTSN_RING_SLOT_HEADER_BYTES = 64,
};

/* Clocks that a transmit time can be given in, and the index into doorbell_before_ns. */
enum ktsn_clock {
	KTSN_CLOCK_REALTIME = 0,
	KTSN_CLOCK_MONOTONIC = 1,
	KTSN_CLOCK_TAI = 2,
	KTSN_CLOCKS = 3,
};

/* No ring is larger: the most slots there can be, each for the largest datagram. */
#define KTSN_RING_BYTES_MAX ((int64_t)KTSN_RING_SLOTS_MAX * 65536)

enum ktsn_slot_state {
	KTSN_SLOT_FREE = 0,
	KTSN_SLOT_WRITING = 1,
	KTSN_SLOT_READY = 2,
	KTSN_SLOT_DEPARTING = 3,
};

/* doorbell_before_ns while ktsnd is not looking at this ring at all. */
#define KTSN_DOORBELL_ALWAYS INT64_MAX

struct ktsn_ring_header {
	/* Written once by ktsnd, before the application sees the memory. */
	uint64_t magic;
	uint32_t version;
	uint32_t slot_count;   /* a multiple of KTSN_RING_WORD_BITS */
	uint32_t slot_bytes;   /* distance of slots, header included; a multiple of the cache line */
	uint32_t slots_offset; /* of slot 0 from the start of the memory */
	uint64_t total_bytes;  /* size of the memfd */

	/* Written by producers, cleared by the consumer: bit w says that word w of `ready` may not be 0. */
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint64_t ready_summary;

	/* Written by ktsnd: ring the doorbell for a message whose time on that clock is before this. */
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic int64_t doorbell_before_ns[KTSN_CLOCKS];
	/* Written by ktsnd, on the line that a sender reads anyway: not 0 while called_tai_ns is wanted. */
	_Atomic uint32_t trace;

	/* Numbers messages in the order of their publication; breaks ties of equal transmit times. */
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint64_t next_sequence;
	/* Timed messages that the pod's routes sent another way (counted by the library). */
	_Atomic uint64_t kernel_path;

	/* Producers that wait for a free slot sleep on space_sequence (a futex). */
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint32_t space_waiters;
	_Atomic uint32_t space_sequence;

	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint64_t ready[KTSN_RING_WORDS];
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint64_t free[KTSN_RING_WORDS];
};

struct ktsn_ring_slot {
	_Atomic uint32_t state; /* enum ktsn_slot_state */
	uint32_t flow;          /* number that ktsnd gave the socket */
	uint32_t destination;   /* number that ktsnd gave the address it goes to */
	uint32_t payload_bytes;
	int64_t txtime_ns;     /* on the flow's clock */
	uint64_t sequence;     /* from next_sequence */
	int64_t called_tai_ns; /* when the send call began, if `trace` asked for it; else 0 */
	uint8_t reserved[24];
	uint8_t payload[];
};

static_assert(offsetof(struct ktsn_ring_header, ready_summary) == 64, "layout is part of the protocol");
static_assert(offsetof(struct ktsn_ring_header, doorbell_before_ns) == 128, "layout");
static_assert(offsetof(struct ktsn_ring_header, trace) == 152, "layout");
static_assert(offsetof(struct ktsn_ring_header, next_sequence) == 192, "layout");
static_assert(offsetof(struct ktsn_ring_header, space_waiters) == 256, "layout");
static_assert(offsetof(struct ktsn_ring_header, ready) == 320, "layout");
static_assert(offsetof(struct ktsn_ring_header, free) == 832, "layout");
static_assert(sizeof(struct ktsn_ring_header) == 1344, "layout");
static_assert(offsetof(struct ktsn_ring_slot, called_tai_ns) == 32, "layout");
static_assert(sizeof(struct ktsn_ring_slot) == KTSN_RING_SLOT_HEADER_BYTES, "layout");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "shared between processes");

static inline struct ktsn_ring_slot *ktsn_ring_slot_at(void *memory, uint32_t slots_offset,
						       uint32_t slot_bytes, uint32_t slot)
{
	return (struct ktsn_ring_slot *)((uint8_t *)memory + slots_offset + (size_t)slot * slot_bytes);
}

#endif
