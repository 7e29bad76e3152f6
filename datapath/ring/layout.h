/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared memory between one application process and ktsnd, byte by byte (docs/ring-layout.md).
 *
 * A message enters it first. The memory is a map of the kernel that ktsnd made (ring_map.h): nobody can
 * take a page of it away, so that a mapping of it never faults. It holds
 *
 *   header | ready, free and reported bitmaps | slot 0 | slot 1 | ... | slot n-1
 *
 * The ring is no queue: messages leave in the order of their transmit times, so slots become free in any
 * order. A thread that is interrupted in the middle of a send does not hold up the others. A producer takes
 * a slot by clearing its bit in `free`, fills it, and sets its bit in `ready`; the consumer takes all
 * ready bits at once. The consumer is wait-free, producers are lock-free.
 *
 *   slot state   FREE --claim--> WRITING --publish--> READY --depart--> DEPARTING --release--> FREE
 *                      producer           producer           consumer             consumer
 *                                                    |                                   ^
 *                                                    +--report--> REPORTED --read--> FREE, by the producer
 *
 * A message that was dropped stays in its slot, if its socket asked for that (SOF_TXTIME_REPORT_ERRORS), with
 * the headers in front of it that it would have had, until the application has read it from the error queue.
 *
 * The state decides; the bitmaps are hints where to look. A slot belongs to the producer that turned it from
 * FREE to WRITING, whatever its bits are. So a ktsnd that died at any point leaves nothing ambiguous.
 *
 * A slot stays READY while ktsnd holds its message, so a successor of a killed ktsnd finds it again; one
 * that is DEPARTING may or may not have left and is never sent twice.
 *
 * Threads: any number of producer threads in one process, one consumer thread in ktsnd. The consumer trusts
 * nothing in this memory (ring_consumer.h).
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
	KTSN_RING_VERSION = 3,
	KTSN_RING_SLOTS_MAX = 4096,
	KTSN_RING_WORD_BITS = 64,
	KTSN_RING_WORDS = KTSN_RING_SLOTS_MAX / KTSN_RING_WORD_BITS,
	KTSN_RING_FLOWS = 256,        /* sockets of one process */
	KTSN_RING_PRIORITY_MASK = 15, /* of a slot's priority */
	KTSN_CACHE_LINE_BYTES = 64,
	/* In front of a payload, for the headers of a reported message: Ethernet, IPv6, UDP take 62. */
	KTSN_RING_HEADROOM_BYTES = 64,
	KTSN_RING_SLOT_HEADER_BYTES = 64 + KTSN_RING_HEADROOM_BYTES,
};

/* Clocks that a transmit time can be given in, and the index into doorbell_before_ns. */
enum ktsn_clock {
	KTSN_CLOCK_REALTIME = 0,
	KTSN_CLOCK_MONOTONIC = 1,
	KTSN_CLOCK_TAI = 2,
	KTSN_CLOCKS = 3,
};

/* No ring is larger: the most slots there can be, each for the largest datagram. */
#define KTSN_RING_SLOT_BYTES_MAX (65536 + KTSN_RING_SLOT_HEADER_BYTES)
#define KTSN_RING_BYTES_MAX      ((uint64_t)(KTSN_RING_SLOTS_MAX + 1) * KTSN_RING_SLOT_BYTES_MAX)

enum ktsn_slot_state {
	KTSN_SLOT_FREE = 0,
	KTSN_SLOT_WRITING = 1,
	KTSN_SLOT_READY = 2,
	KTSN_SLOT_DEPARTING = 3,
	KTSN_SLOT_REPORTED = 4,
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
	uint64_t total_bytes;  /* size of the memory, in whole pages */

	/* Written by producers, cleared by the consumer: bit w says that word w of `ready` may not be 0. */
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint64_t ready_summary;

	/* Written by ktsnd: ring the doorbell for a message whose time on that clock is before this. */
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic int64_t doorbell_before_ns[KTSN_CLOCKS];
	/* Written by ktsnd, on the line that a sender reads anyway: not 0 while called_tai_ns is wanted. */
	_Atomic uint32_t trace;
	/* Written by ktsnd, on the same line: how often the longest payload of a destination became less. The
	 * library then asks again for the destinations of its sockets. */
	_Atomic uint32_t mtus_lowered;
	/* Written by ktsnd's loop, of untimed rings only: when it last went round, on CLOCK_MONOTONIC. At
	 * least every 20 ms, so that a relay knows whether frames without a time still leave. */
	_Atomic int64_t alive_ns;
	/* Written by ktsnd, on the line that a sender reads anyway: networks that take no messages with a
	 * transmit time now, because the node's clock is lost to them. A destination's bit in it came with
	 * its number (struct ktsn_app_reply). */
	_Atomic uint64_t refused;
	/* Written by ktsnd's loop before alive_ns, of untimed rings only: bit p says that the schedule closes
	 * the gate of priority p at times. A relay keeps it while ktsnd is away. */
	_Atomic uint32_t gated;

	/* Numbers messages in the order of their publication; breaks ties of equal transmit times. */
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint64_t next_sequence;
	/* Timed messages that the pod's routes sent to the kernel (counted by the library). */
	_Atomic uint64_t kernel_path;
	/* Timed messages that were refused because ktsnd did not answer (counted by the library). */
	_Atomic uint64_t unanswered;

	alignas(KTSN_CACHE_LINE_BYTES) uint32_t reserved[2];
	_Atomic uint32_t reports_read; /* by the library, of all that ktsnd made in this ring, modulo 2^32 */
	/* Not 0: the flows in space_polled wait for space, in a send, poll or epoll. Set by the library,
	 * taken by ktsnd. */
	_Atomic uint32_t space_pollers;
	_Atomic uint64_t space_polled[KTSN_RING_FLOWS / KTSN_RING_WORD_BITS];

	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint64_t ready[KTSN_RING_WORDS];
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint64_t free[KTSN_RING_WORDS];
	/* The slot is REPORTED: set by ktsnd, cleared by whoever frees the slot. */
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint64_t reported[KTSN_RING_WORDS];
	/* By flow: the ktsn_ring_charge_bytes() of all messages that are no longer pending. Written by
	 * ktsnd. */
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint64_t released_bytes[KTSN_RING_FLOWS];
};

struct ktsn_ring_slot {
	_Atomic uint32_t state; /* enum ktsn_slot_state */
	uint32_t flow;          /* number that ktsnd gave the socket */
	uint32_t destination;   /* number that ktsnd gave the address it goes to */
	uint32_t payload_bytes;
	int64_t txtime_ns;     /* on the flow's clock */
	uint64_t sequence;     /* from next_sequence; of a report: its number, oldest first */
	int64_t called_tai_ns; /* when the send call began, if `trace` asked for it; else 0 */
	/* Of a flow of frames (KTSN_APP_FRAMES), else unused: what stands behind the hardware addresses, and
	 * SO_PRIORITY & 15 of whoever sent it. */
	uint16_t ethertype_be;
	uint8_t priority;
	uint8_t reserved[17];
	/* Written by ktsnd with REPORTED. */
	uint8_t report_code;          /* SO_EE_CODE_TXTIME_... */
	uint8_t report_headers_bytes; /* the last so many of `headroom` are the headers */
	uint8_t report_reserved[2];
	uint8_t headroom[KTSN_RING_HEADROOM_BYTES];
	uint8_t payload[];
};

static_assert(offsetof(struct ktsn_ring_header, ready_summary) == 64, "layout is part of the protocol");
static_assert(offsetof(struct ktsn_ring_header, doorbell_before_ns) == 128, "layout");
static_assert(offsetof(struct ktsn_ring_header, trace) == 152, "layout");
static_assert(offsetof(struct ktsn_ring_header, mtus_lowered) == 156, "layout");
static_assert(offsetof(struct ktsn_ring_header, alive_ns) == 160, "layout");
static_assert(offsetof(struct ktsn_ring_header, refused) == 168, "layout");
static_assert(offsetof(struct ktsn_ring_header, gated) == 176, "layout");
static_assert(offsetof(struct ktsn_ring_header, next_sequence) == 192, "layout");
static_assert(offsetof(struct ktsn_ring_header, unanswered) == 208, "layout");
static_assert(offsetof(struct ktsn_ring_header, reserved) == 256, "layout");
static_assert(offsetof(struct ktsn_ring_header, ready) == 320, "layout");
static_assert(offsetof(struct ktsn_ring_header, free) == 832, "layout");
static_assert(offsetof(struct ktsn_ring_header, reports_read) == 264, "layout");
static_assert(offsetof(struct ktsn_ring_header, reported) == 1344, "layout");
static_assert(offsetof(struct ktsn_ring_header, space_pollers) == 268, "layout");
static_assert(offsetof(struct ktsn_ring_header, released_bytes) == 1856, "layout");
static_assert(sizeof(struct ktsn_ring_header) == 3904, "layout");
static_assert(offsetof(struct ktsn_ring_slot, called_tai_ns) == 32, "layout");
static_assert(offsetof(struct ktsn_ring_slot, ethertype_be) == 40, "layout");
static_assert(offsetof(struct ktsn_ring_slot, report_code) == 60, "layout");
static_assert(offsetof(struct ktsn_ring_slot, headroom) == 64, "layout");
static_assert(sizeof(struct ktsn_ring_slot) == KTSN_RING_SLOT_HEADER_BYTES, "layout");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "shared between processes");

/*
 * What a pending message takes of its socket's send buffer: as much as in the kernel, so that SO_SNDBUF holds
 * as many messages. The kernel charges an sk_buff and the memory behind it, headers and bookkeeping included,
 * as the allocator rounds it up: 768 bytes for a message of 64 bytes, 2304 for one of 1472.
 */
static inline uint32_t ktsn_ring_charge_bytes(uint32_t payload_bytes)
{
	enum { SK_BUFF = 256, HEADERS = 59, SHARED_INFO = 320, SMALLEST = 512 };
	uint32_t wanted = ((payload_bytes + HEADERS + 63) & ~UINT32_C(63)) + SHARED_INFO, rounded = SMALLEST;

	while (rounded < wanted && rounded < UINT32_C(1) << 30)
		rounded *= 2;
	return rounded + SK_BUFF;
}

/* A slot, or a flow, in a bitmap: its word and its bit. */
static inline uint32_t ktsn_ring_word(uint32_t number)
{
	return number / KTSN_RING_WORD_BITS;
}

static inline uint64_t ktsn_ring_bit(uint32_t number)
{
	return UINT64_C(1) << (number % KTSN_RING_WORD_BITS);
}

static inline struct ktsn_ring_slot *ktsn_ring_slot_at(void *memory, uint32_t slots_offset,
						       uint32_t slot_bytes, uint32_t slot)
{
	return (struct ktsn_ring_slot *)((uint8_t *)memory + slots_offset + (size_t)slot * slot_bytes);
}

#endif
