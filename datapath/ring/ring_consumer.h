/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsnd's side of a ring. The application can write any byte of the memory at any moment, so each field
 * is read once into private memory and checked there, slots are tracked in private bitmaps, and nothing
 * in the memory is used as a pointer, index or length before it is checked.
 *
 * One consumer thread (ktsnd's loop thread). No system calls.
 */
#ifndef KTSN_RING_CONSUMER_H
#define KTSN_RING_CONSUMER_H

#include "layout.h"
#include "ring_order.h"

#include <stdbool.h>

struct ktsn_ring_consumer {
	struct ktsn_ring_header *header;
	uint32_t slot_count;
	uint32_t slot_bytes;
	uint32_t slots_offset;
	uint32_t payload_capacity_bytes;
	uint32_t held;                       /* slots taken and not released */
	uint64_t collected[KTSN_RING_WORDS]; /* ready bits fetched from the memory, not yet in `order` */
	uint64_t collected_summary;          /* bit w: collected[w] is not 0 */
	bool complete;                   /* nothing in the memory was handed over before what was fetched */
	uint64_t taken[KTSN_RING_WORDS]; /* slots that ktsnd holds, or that are in `order` */
	uint64_t
		recovered[KTSN_RING_WORDS]; /* slots that ktsn_ring_recover() found ready, not yet released */
	/* Slots that were being written when ktsn_ring_recover() looked, and not seen READY since: their
	 * messages may have got a number before that, which was below this one. */
	uint64_t unsettled[KTSN_RING_WORDS];
	uint64_t settled_sequence;
	/* Slots that ktsnd made reports of and has not seen again since, and the flows of these. */
	uint64_t reported[KTSN_RING_WORDS];
	uint8_t reported_flow[KTSN_RING_SLOTS_MAX];
	uint32_t reports_made; /* modulo 2^32, as reports_read */
	uint64_t report_sequence;
	/* Slots to be taken. At the end: most of its memory is never touched. */
	struct ktsn_ring_order order;
};

/* A message as it stood in its slot when it was read, once. Only `slot` is ktsnd's own number. */
struct ktsn_ring_taken {
	uint32_t slot;
	uint32_t flow;
	uint32_t destination;
	uint32_t payload_bytes; /* at most the capacity of a slot */
	int64_t txtime_ns;
	uint64_t sequence;     /* modulo 2^52 */
	int64_t called_tai_ns; /* 0: the library did not say */
	uint16_t ethertype_be; /* of a flow of frames, as is: */
	uint8_t priority;      /* 0 to 15 */
	bool recovered;        /* it was ready when ktsnd took the ring over */
};

/* Starts to consume a ring of known numbers; `memory` is the caller's and outlives the consumer. */
void ktsn_ring_consumer_init(struct ktsn_ring_consumer *ring, void *memory, uint32_t slot_count,
			     uint32_t slot_bytes);

/* Reads every slot, so that ktsn_ring_recover() takes no page faults. */
void ktsn_ring_touch(const struct ktsn_ring_consumer *ring);

/*
 * Takes over a ring that another ktsnd has used: what is READY will be taken like fresh messages; what was
 * DEPARTING may have left, so it is given back and never sent again; and free slots are shown as free.
 * Producers may be at work meanwhile. Returns the number of slots that were departing.
 */
uint32_t ktsn_ring_recover(struct ktsn_ring_consumer *ring);

/* Whether the ring may have a message: one load of one cache line. */
bool ktsn_ring_ready(const struct ktsn_ring_consumer *ring);

/*
 * Takes the oldest message by its sequence. What one thread published one after another is taken in that
 * order, however few are taken at a time. Returns 1 with *taken filled; 0 when none is ready; -EAGAIN when a
 * few slots were looked at, which has taken about as long as a message takes, and more must be before it is
 * known which is the oldest: nothing was taken; -EBADMSG when the slot's contents cannot be used: *taken
 * holds the slot, which is the caller's to release like any other.
 */
int ktsn_ring_take(struct ktsn_ring_consumer *ring, struct ktsn_ring_taken *taken);

/* Puts a message back, to be taken again before those that were handed over after it. */
void ktsn_ring_untake(struct ktsn_ring_consumer *ring, const struct ktsn_ring_taken *taken);

/* Payload of a taken slot; may change while it is read. */
const uint8_t *ktsn_ring_taken_payload(const struct ktsn_ring_consumer *ring, uint32_t slot);

/* Marks a taken slot: its frame is about to be given to the port. */
void ktsn_ring_depart(struct ktsn_ring_consumer *ring, uint32_t slot);

/* Takes the mark back: the port did not take the frame. */
void ktsn_ring_undepart(struct ktsn_ring_consumer *ring, uint32_t slot);

/* Gives a taken slot back to the application: its message left or was dropped with a reason counted. */
void ktsn_ring_release(struct ktsn_ring_consumer *ring, uint32_t slot);

/*
 * Reports of dropped messages. They take up slots until the application reads them: half of the ring at most.
 * The application says what it has read; a false word harms only itself.
 */
bool ktsn_ring_report_room(const struct ktsn_ring_consumer *ring);

/* Where the headers of a taken slot's message go: they end where its payload begins. The application sees
 * them, and may change them, as they are written. */
uint8_t *ktsn_ring_taken_headers(const struct ktsn_ring_consumer *ring, uint32_t slot, size_t headers_bytes);

/* Instead of ktsn_ring_release(): hands a taken slot to the application as a report. */
void ktsn_ring_report(struct ktsn_ring_consumer *ring, uint32_t slot, uint8_t code, size_t headers_bytes);

/* Whether any report of the ring is unread, as the application says. */
bool ktsn_ring_reports_any(const struct ktsn_ring_consumer *ring);

/* Frees all unread reports of a flow that has ended. */
void ktsn_ring_reports_discard(struct ktsn_ring_consumer *ring, uint32_t flow);

/* Whether flows wait for space; and which, by number in word w. Each is returned once. Asked after a number
 * of releases. */
bool ktsn_ring_space_polled(struct ktsn_ring_consumer *ring);
uint64_t ktsn_ring_space_pollers(struct ktsn_ring_consumer *ring, uint32_t w);

/* Whether producers shall say when their send calls begin, for a trace or for a strategy that asks for it.
 * Any thread of ktsnd. */
void ktsn_ring_trace_set(struct ktsn_ring_consumer *ring, bool traced);

/* Says which networks take no messages with a transmit time now. Any thread of ktsnd. */
static inline void ktsn_ring_refused_set(struct ktsn_ring_consumer *ring, uint64_t refused)
{
	atomic_store_explicit(&ring->header->refused, refused, memory_order_seq_cst);
}

/* Tells producers that the longest payload of a destination became less. Any thread of ktsnd. */
static inline void ktsn_ring_mtu_lowered(struct ktsn_ring_consumer *ring)
{
	atomic_fetch_add_explicit(&ring->header->mtus_lowered, 1, memory_order_relaxed);
}

/* Says when producers must ring. After this returns, ktsn_ring_ready() sees every message whose
 * producer did not see the new values. */
void ktsn_ring_doorbell_set(struct ktsn_ring_consumer *ring, const int64_t before_ns[KTSN_CLOCKS]);

#endif
