/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared memory between one application process and ktsnd, byte by byte (docs/internals/ring-layout.md).
 *
 * Each message starts here. The memory is a map of the kernel that ktsnd made (ring_map.h): nobody can remove
 * a page from it, so an access to a mapping never faults. It holds
 *
 *   header | ready, free and reported bitmaps | slot 0 | slot 1 | ... | slot n-1
 *
 * The ring is not a queue: messages leave in the order of their transmit times, so slots become free in any
 * order. A thread that is interrupted in the middle of a send does not delay the others. A producer takes
 * a slot by clearing its bit in `free`, fills it, and sets its bit in `ready`; the consumer takes all
 * ready bits at once. The consumer is wait-free, producers are lock-free.
 *
 *   slot state   FREE --claim--> WRITING --publish--> READY --depart--> DEPARTING --release--> FREE
 *                      producer           producer           consumer             consumer
 *                                                    |                                   ^
 *                                                    +--report--> REPORTED --read--> FREE, by the producer
 *
 * If its socket set SOF_TXTIME_REPORT_ERRORS, a dropped message stays in its slot, after the headers that it
 * would have had, until the application has read it from the error queue. So does a message that has left, if
 * its application asked for time stamps.
 *
 * The state is authoritative; the bitmaps are hints where to look. A slot belongs to the producer that
 * changed it from FREE to WRITING, whatever its bits are. So ktsnd may be killed at any point and leaves no
 * slot in an ambiguous state.
 *
 * A slot stays READY while ktsnd holds its message, so the successor of a killed ktsnd finds it again. The
 * message of a slot that is DEPARTING may or may not have left, and is never sent twice.
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
	/* Before each payload, for the headers of a reported message: Ethernet, IPv6 and UDP take 62 bytes.
	 */
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

/* The size of the largest ring: the maximum of slots, each for the largest datagram. */
#define KTSN_RING_SLOT_BYTES_MAX (65536 + KTSN_RING_SLOT_HEADER_BYTES)
#define KTSN_RING_BYTES_MAX      ((uint64_t)(KTSN_RING_SLOTS_MAX + 1) * KTSN_RING_SLOT_BYTES_MAX)

enum ktsn_slot_state {
	KTSN_SLOT_FREE = 0,
	KTSN_SLOT_WRITING = 1,
	KTSN_SLOT_READY = 2,
	KTSN_SLOT_DEPARTING = 3,
	KTSN_SLOT_REPORTED = 4,
};

/* Time stamps of a message that its application asked for (SO_TIMESTAMPING). */
enum {
	KTSN_STAMP_SCHED = 1,    /* SOF_TIMESTAMPING_TX_SCHED */
	KTSN_STAMP_SOFTWARE = 2, /* SOF_TIMESTAMPING_TX_SOFTWARE */
	KTSN_STAMP_ONLY = 4,     /* SOF_TIMESTAMPING_OPT_TSONLY: without the frame */
	KTSN_STAMP_ALL = 7,
};

enum { KTSN_REPORT_STAMPS = 0 };

/* doorbell_before_ns while ktsnd does not poll this ring at all. */
#define KTSN_DOORBELL_ALWAYS INT64_MAX

struct ktsn_ring_header {
	/* Written once by ktsnd, before the application sees the memory. */
	uint64_t magic;
	uint32_t version;
	uint32_t slot_count;   /* a multiple of KTSN_RING_WORD_BITS */
	uint32_t slot_bytes;   /* distance of slots, header included; a multiple of the cache line */
	uint32_t slots_offset; /* of slot 0 from the start of the memory */
	uint64_t total_bytes;  /* size of the memory, in whole pages */

	/* Written by producers, cleared by the consumer: if bit w is set, word w of `ready` may not be 0. */
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint64_t ready_summary;

	/* Written by ktsnd: a producer rings the doorbell for a message whose transmit time on that clock is
	 * before this. */
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic int64_t doorbell_before_ns[KTSN_CLOCKS];
	/* Written by ktsnd, on the line that a sender reads anyway: not 0 if producers shall write
	 * called_tai_ns. */
	_Atomic uint32_t trace;
	/* Written by ktsnd, on the same line: how often the longest payload of a destination became smaller.
	 * The library then requests the destinations of its sockets again. */
	_Atomic uint32_t mtus_lowered;
	/* Written by ktsnd's loop, in untimed rings only: the time of its last iteration, on CLOCK_MONOTONIC.
	 * At least every 20 ms, so that a relay knows whether frames without a transmit time still leave. */
	_Atomic int64_t alive_ns;
	/* Written by ktsnd, on the line that a sender reads anyway: networks that take no messages with a
	 * transmit time now, because the node's clock is not synchronized with theirs. A destination's bit
	 * comes with its number (struct ktsn_app_reply). */
	_Atomic uint64_t refused;
	/* Written by ktsnd's loop before alive_ns, in untimed rings only: bit p is set if the schedule closes
	 * the gate of priority p at times. A relay keeps the value while ktsnd is not running. */
	_Atomic uint32_t gated;

	/* Numbers messages in the order of their publication; breaks ties of equal transmit times. */
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint64_t next_sequence;
	/* Timed messages that the pod's routes sent to the kernel (counted by the library). */
	_Atomic uint64_t kernel_path;
	/* Timed messages that were refused because ktsnd did not answer (counted by the library). */
	_Atomic uint64_t unanswered;
	/* Timed messages that were refused because they would have left through an interface that is not of
	 * the pod's networks (counted by the library). */
	_Atomic uint64_t off_network;

	alignas(KTSN_CACHE_LINE_BYTES) uint32_t reserved[2];
	/* How many of ktsnd's reports in this ring the library has read, modulo 2^32. */
	_Atomic uint32_t reports_read;
	/* Not 0: the flows in space_polled wait for space, in a send, poll or epoll. Set by the library,
	 * cleared by ktsnd. */
	_Atomic uint32_t space_pollers;
	_Atomic uint64_t space_polled[KTSN_RING_FLOWS / KTSN_RING_WORD_BITS];

	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint64_t ready[KTSN_RING_WORDS];
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint64_t free[KTSN_RING_WORDS];
	/* The slot is REPORTED: set by ktsnd, cleared by the side that frees the slot. */
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint64_t reported[KTSN_RING_WORDS];
	/* By flow: the ktsn_ring_charge_bytes() of all messages that are no longer pending. Written by
	 * ktsnd. */
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint64_t released_bytes[KTSN_RING_FLOWS];
};

struct ktsn_ring_slot {
	_Atomic uint32_t state; /* enum ktsn_slot_state */
	uint32_t flow;          /* number that ktsnd gave the socket */
	uint32_t destination;   /* number that ktsnd gave the destination address */
	uint32_t payload_bytes;
	int64_t txtime_ns;     /* on the flow's clock */
	uint64_t sequence;     /* from next_sequence; in a report: its number, oldest first */
	int64_t called_tai_ns; /* when the send call began, for `trace` or KTSN_STAMP_SCHED; else 0 */
	/* For a flow of frames (KTSN_APP_FRAMES), else unused: the EtherType after the hardware addresses,
	 * and SO_PRIORITY & 15 of the sender's socket. */
	uint16_t ethertype_be;
	uint8_t priority;
	/* KTSN_STAMP_...: once the message has left, the slot is REPORTED for its time stamps; and the number
	 * that they carry. */
	uint8_t stamps;
	uint32_t stamp_number;
	/* Written by ktsnd for time stamps. */
	int64_t departed_tai_ns;
	uint8_t reserved[4];
	/* Written by ktsnd with REPORTED. */
	uint8_t report_code;          /* SO_EE_CODE_TXTIME_..., or KTSN_REPORT_STAMPS */
	uint8_t report_headers_bytes; /* length of the headers, at the end of `headroom` */
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
static_assert(offsetof(struct ktsn_ring_header, off_network) == 216, "layout");
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
static_assert(offsetof(struct ktsn_ring_slot, stamps) == 43, "layout");
static_assert(offsetof(struct ktsn_ring_slot, departed_tai_ns) == 48, "layout");
static_assert(offsetof(struct ktsn_ring_slot, report_code) == 60, "layout");
static_assert(offsetof(struct ktsn_ring_slot, headroom) == 64, "layout");
static_assert(sizeof(struct ktsn_ring_slot) == KTSN_RING_SLOT_HEADER_BYTES, "layout");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "shared between processes");

/*
 * How much of its socket's send buffer a pending message takes: as much as in the kernel, so that SO_SNDBUF
 * holds as many messages. The kernel charges an sk_buff and its data, headers and bookkeeping included, as
 * the allocator rounds it up: 768 bytes for a message of 64 bytes, 2304 for one of 1472.
 */
static inline uint32_t ktsn_ring_charge_bytes(uint32_t payload_bytes)
{
	enum { SK_BUFF = 256, HEADERS = 59, SHARED_INFO = 320, SMALLEST = 512 };
	uint32_t data = ((payload_bytes + HEADERS + 63) & ~UINT32_C(63)) + SHARED_INFO, rounded = SMALLEST;

	while (rounded < data && rounded < UINT32_C(1) << 30)
		rounded *= 2;
	return rounded + SK_BUFF;
}

/* The word and the bit of a slot or flow in a bitmap. */
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
