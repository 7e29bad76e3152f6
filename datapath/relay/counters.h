/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of ktsn-relay, in a file in memory that outlives it. The program that started it reads them, and
 * the next relay of the same interface continues with them. All are unsigned 64-bit numbers in the machine's
 * order, at fixed places; a reader of another program finds them by these offsets:
 *
 *     0  magic         "ktsnrlay", little endian; 0 in a file that no relay has had
 *     8  version       1
 *    16  relays        relays that have had the file
 *    24  connected     bit 0: ktsnd takes timed frames; bit 1: it takes untimed ones
 *    32  protocol      version of the application protocol that ktsnd speaks; 0: none has answered
 *    40  too-old       1: the ktsnd that answered last cannot serve a relay
 *    48  backlog       timed frames that wait in the relay now
 *    56  handed-back   rings that were handed to a ktsnd that was started again
 *    64  read-timed    frames that were read, 72 read-untimed
 *    80  handed-timed  frames that were put into ktsnd's ring, 88 handed-untimed
 *    96  bypassed      untimed frames that were given to the kernel instead, where that is allowed
 *   104  back-read     frames that were read for the guest behind the source, 112 back-handed: given to it,
 *   120  back-dropped  frames that it had no room for, or that it cannot take
 *   128  dropped       by reason (enum relay_drop)
 *   504  gated         bit p: the node's schedule closes the gate of priority p at times; kept while ktsnd is
 *                      away, so that the relay hands no frame of these to the kernel instead
 *
 * read - handed - bypassed - dropped frames are in the relay: the backlog, untimed frames whose destination
 * ktsnd has not told yet, and one. When a relay is killed they are lost; the next one counts them so
 * (RELAY_DROP_LOST). Killed between a step and its count, a relay has read, or handed over, one frame more
 * than it counted: the device's statistics have the former, ktsnd's the latter.
 *
 * Written by the relay's only thread; read by any process.
 */
#ifndef KTSN_RELAY_COUNTERS_H
#define KTSN_RELAY_COUNTERS_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define RELAY_COUNTERS_MAGIC UINT64_C(0x79616c726e73746b)

enum { RELAY_COUNTERS_VERSION = 1, RELAY_DROPS_MAX = 47 };

enum relay_drop {
	RELAY_DROP_LOST = 0,         /* when a relay was killed */
	RELAY_DROP_TRUNCATED,        /* no whole frame, or longer than the relay reads */
	RELAY_DROP_OFFLOAD,          /* the kernel should have segmented it, or its checksum has no place */
	RELAY_DROP_RECORD_SHORT,     /* forged: no frame follows the record */
	RELAY_DROP_RECORD_BITS,      /* forged: an unused bit, or an unknown clock */
	RELAY_DROP_RECORD_ADDRESSES, /* forged: the addresses of the record and of the frame differ */
	RELAY_DROP_UNEXPECTED,       /* no record, though only frames with one are captured */
	RELAY_DROP_TOO_LONG,         /* longer than the path allows */
	RELAY_DROP_SOURCE,           /* ktsnd refuses that source address */
	RELAY_DROP_NO_DESTINATION,   /* ktsnd has no route there */
	RELAY_DROP_DESTINATIONS,     /* too many new destinations in a short time */
	RELAY_DROP_NO_ROOM,          /* untimed: the ring is full */
	RELAY_DROP_NO_DAEMON,        /* untimed: ktsnd is away, or does not answer */
	RELAY_DROP_BACKLOG_FULL,     /* timed: the ring is full, and too many wait already */
	RELAY_DROP_STALE,            /* untimed: it waited in the device for the relay to start */
	RELAY_DROP_NO_FLOW,          /* ktsnd refuses frames of that clock, or with deadlines */
	RELAY_DROP_CLOCK,            /* timed: the network takes none while the node's clock is lost to it */
	RELAY_DROP_RECORD_DENIED,    /* a record, though the endpoint has no right to one */
	RELAY_DROP_DESCRIPTOR,       /* no frame that the relay takes is in the guest's descriptors */
	RELAY_DROP_REASONS,
};

/* Bits of `connected`, and indices of `read` and `handed`. */
enum { RELAY_TIMED = 0, RELAY_UNTIMED = 1, RELAY_KINDS = 2 };

struct relay_counters {
	uint64_t magic;
	uint64_t version;
	_Atomic uint64_t relays;
	_Atomic uint64_t connected;
	_Atomic uint64_t protocol;
	_Atomic uint64_t too_old;
	_Atomic uint64_t backlog;
	_Atomic uint64_t handed_back;
	_Atomic uint64_t read[RELAY_KINDS];
	_Atomic uint64_t handed[RELAY_KINDS];
	_Atomic uint64_t bypassed;
	_Atomic uint64_t back_read;
	_Atomic uint64_t back_handed;
	_Atomic uint64_t back_dropped;
	_Atomic uint64_t dropped[RELAY_DROPS_MAX];
	_Atomic uint64_t gated;
};

static_assert(sizeof(struct relay_counters) == 512, "read by other programs");
static_assert(offsetof(struct relay_counters, read) == 64, "read by other programs");
static_assert(offsetof(struct relay_counters, dropped) == 128, "read by other programs");
static_assert(offsetof(struct relay_counters, gated) == 504, "read by other programs");
static_assert((int)RELAY_DROP_REASONS <= (int)RELAY_DROPS_MAX, "a place for each");

/* relay_counters_open maps the file, and extends and initialises it if it is new. 0, -EPROTO when it has
 * other contents, or another -errno. */
int relay_counters_open(int fd, struct relay_counters **counters);

/* relay_count adds to a counter. Only one thread writes, so that a load and a store suffice. */
static inline void relay_count(_Atomic uint64_t *counter, uint64_t more)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
			      memory_order_relaxed);
}

static inline void relay_drop(struct relay_counters *counters, enum relay_drop reason)
{
	relay_count(&counters->dropped[reason], 1);
}

#endif
