/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsnd's side of a ring. The application can write any byte of the memory at any moment. So ktsnd reads each
 * field once into private memory and checks it there, tracks slots in private bitmaps, and uses nothing from
 * the memory as a pointer, index or length before it is checked.
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
	bool complete;                       /* no message in the memory is older than the fetched ones */
	uint64_t taken[KTSN_RING_WORDS];     /* slots that ktsnd holds, or that are in `order` */
	uint64_t
		recovered[KTSN_RING_WORDS]; /* slots that ktsn_ring_recover() found ready, not yet released */
	/* Slots that were WRITING in ktsn_ring_recover() and not READY since: their messages may already have
	 * had a number then, below settled_sequence. */
	uint64_t unsettled[KTSN_RING_WORDS];
	uint64_t settled_sequence;
	/* Slots with a report from ktsnd that were not taken or discarded since, and their flows. */
	uint64_t reported[KTSN_RING_WORDS];
	uint8_t reported_flow[KTSN_RING_SLOTS_MAX];
	uint32_t reports_made; /* modulo 2^32, as reports_read */
	uint64_t report_sequence;
	/* Slots to be taken. At the end, because most of its memory is never used. */
	struct ktsn_ring_order order;
};

/* A message as it was in its slot when it was read, once. Only `slot` does not come from the application. */
struct ktsn_ring_taken {
	uint32_t slot;
	uint32_t flow;
	uint32_t destination;
	uint32_t payload_bytes; /* at most the capacity of a slot */
	int64_t txtime_ns;
	uint64_t sequence;     /* modulo 2^52 */
	int64_t called_tai_ns; /* 0: not given */
	uint16_t ethertype_be; /* for a flow of frames, not checked */
	uint8_t priority;      /* 0 to 15 */
	uint8_t stamps;        /* KTSN_STAMP_... */
	bool recovered;        /* it was ready when ktsnd took the ring over */
};

/* Starts to consume a ring of that geometry. The caller owns `memory`, which must outlive the consumer. */
void ktsn_ring_consumer_init(struct ktsn_ring_consumer *ring, void *memory, uint32_t slot_count,
			     uint32_t slot_bytes);

/* Reads every slot, so that ktsn_ring_recover() takes no page faults. */
void ktsn_ring_touch(const struct ktsn_ring_consumer *ring);

/*
 * Takes over a ring that another ktsnd has used. READY slots will be taken like new messages. DEPARTING slots
 * may have left, so they are freed and never sent again. FREE slots get their bits in `free`. Producers may
 * write meanwhile. Returns the number of slots that were DEPARTING.
 */
uint32_t ktsn_ring_recover(struct ktsn_ring_consumer *ring);

/* Whether the ring may have a message: one load of one cache line. */
bool ktsn_ring_ready(const struct ktsn_ring_consumer *ring);

/*
 * Takes the message with the smallest sequence number. Messages of one thread are taken in the order in which
 * they were published, however few are taken at a time. Returns 1 with *taken filled; 0 when no message is
 * ready; -EAGAIN when nothing was taken, because more slots must be read to find the oldest (the call reads
 * only a few, in about the time that a message takes); -EBADMSG when the slot's contents are invalid: *taken
 * holds the slot, and the caller must release it like any other.
 */
int ktsn_ring_take(struct ktsn_ring_consumer *ring, struct ktsn_ring_taken *taken);

/* Puts a message back, to be taken again before later messages. */
void ktsn_ring_untake(struct ktsn_ring_consumer *ring, const struct ktsn_ring_taken *taken);

/* The payload of a taken slot. It may change while it is read. */
const uint8_t *ktsn_ring_taken_payload(const struct ktsn_ring_consumer *ring, uint32_t slot);

/* Marks a taken slot whose frame is about to be given to the port. */
void ktsn_ring_depart(struct ktsn_ring_consumer *ring, uint32_t slot);

/* Removes that mark, because the port did not take the frame. */
void ktsn_ring_undepart(struct ktsn_ring_consumer *ring, uint32_t slot);

/* Gives a taken slot back to the application. Its message left, or was dropped and counted. */
void ktsn_ring_release(struct ktsn_ring_consumer *ring, uint32_t slot);

/*
 * Whether there is room for another report of a dropped message. Reports take slots until the application
 * reads them, at most half of the ring. The application counts the reports that it has read; a wrong count
 * harms only itself.
 */
bool ktsn_ring_report_room(const struct ktsn_ring_consumer *ring);

/* The buffer for the headers of a taken slot's message, which ends where its payload begins. The application
 * can read and change them while they are written. */
uint8_t *ktsn_ring_taken_headers(const struct ktsn_ring_consumer *ring, uint32_t slot, size_t headers_bytes);

/* Writes when a message left into its taken slot, before ktsn_ring_report(). */
void ktsn_ring_stamp(struct ktsn_ring_consumer *ring, uint32_t slot, int64_t departed_tai_ns);

/* Hands a taken slot to the application as a report, instead of ktsn_ring_release(). */
void ktsn_ring_report(struct ktsn_ring_consumer *ring, uint32_t slot, uint8_t code, size_t headers_bytes);

/* Whether the ring has any unread report, as far as its bitmap shows, which the application can change. */
bool ktsn_ring_reports_any(const struct ktsn_ring_consumer *ring);

/* Frees all unread reports of a flow that has ended. */
void ktsn_ring_reports_discard(struct ktsn_ring_consumer *ring, uint32_t flow);

/* Whether flows wait for space. Called after a number of releases. True once for each time they announce it.
 */
bool ktsn_ring_space_polled(struct ktsn_ring_consumer *ring);

/* Returns and clears word w of the flows that wait for space. */
uint64_t ktsn_ring_space_pollers(struct ktsn_ring_consumer *ring, uint32_t w);

/* Sets whether producers shall write when their send calls begin, for a trace or for a strategy that needs
 * it. Any thread of ktsnd. */
void ktsn_ring_trace_set(struct ktsn_ring_consumer *ring, bool traced);

/* Sets which networks take no messages with a transmit time now. Any thread of ktsnd. */
static inline void ktsn_ring_refused_set(struct ktsn_ring_consumer *ring, uint64_t refused)
{
	atomic_store_explicit(&ring->header->refused, refused, memory_order_seq_cst);
}

/* Notifies producers that the longest payload of a destination became smaller. Any thread of ktsnd. */
static inline void ktsn_ring_mtu_lowered(struct ktsn_ring_consumer *ring)
{
	atomic_fetch_add_explicit(&ring->header->mtus_lowered, 1, memory_order_relaxed);
}

/* Sets the transmit times for which producers must ring the doorbell. After this returns, ktsn_ring_ready()
 * sees every message whose producer did not see the new values. */
void ktsn_ring_doorbell_set(struct ktsn_ring_consumer *ring, const int64_t before_ns[KTSN_CLOCKS]);

#endif
