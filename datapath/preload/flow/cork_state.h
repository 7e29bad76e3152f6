/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of datagrams on their way into the ring, and of those that a corked socket has begun. The functions
 * are in send/: slots.h, outgoing.h, send.h.
 *
 * Slots and outgoing datagrams belong to one thread at a time, corked ones to the holder of the cork's lock.
 */
#ifndef KTSN_PRELOAD_CORK_STATE_H
#define KTSN_PRELOAD_CORK_STATE_H

#include "app_protocol.h"
#include "lock.h"
#include "ring_producer.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SEGMENTS_MAX = 128 /* UDP_MAX_SEGMENTS since Linux 6.9; 64 before */ };

struct slots {
	uint32_t count;
	uint32_t numbers[SEGMENTS_MAX]; /* the first `count` */
};

struct session;

/* Datagrams of a call, or of several calls that were joined. */
struct outgoing {
	struct session *session;
	uint32_t route;       /* enum ktsn_app_route; of KTSN_APP_ROUTE_KERNEL nothing else is filled in */
	uint64_t network_bit; /* in `refused` of the ring */
	bool stamps_numbered; /* the socket's count numbers the time stamps */
	struct ktsn_ring_message described; /* each datagram, except its length */
	struct ktsn_app_key key;            /* the destination, if `has_key`; else the connected one */
	bool has_key;
	uint32_t datagram_max_bytes;
	uint32_t segment_bytes; /* of all datagrams except the last; 0: there is one */
	uint32_t bytes;         /* filled */
	struct slots slots;
};

enum cork_state {
	CORK_EMPTY,
	CORK_RING,   /* slots of the ring are being filled */
	CORK_KERNEL, /* the kernel has the beginning, and takes the rest */
};

struct cork {
	struct lock lock;
	_Atomic uint32_t state;   /* enum cork_state; changed under the lock */
	struct outgoing outgoing; /* CORK_RING; under the lock */
};

static inline void cork_reset(struct cork *cork)
{
	lock_reset(&cork->lock);
	atomic_store_explicit(&cork->state, CORK_EMPTY, memory_order_relaxed);
}

/* cork_forked forgets the parent's slots in a child. A message that the kernel joins belongs to both. */
static inline void cork_forked(struct cork *cork)
{
	lock_reset(&cork->lock);
	if (atomic_load_explicit(&cork->state, memory_order_relaxed) == CORK_RING)
		atomic_store_explicit(&cork->state, CORK_EMPTY, memory_order_relaxed);
}

#endif
