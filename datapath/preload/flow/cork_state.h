/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams on their way into the ring, and the ones that a corked socket has begun. The functions are in
 * send/: slots.h, outgoing.h, cork.h.
 *
 * Slots and outgoing datagrams belong to one thread at a time, the corked ones to the holder of the cork's
 * lock.
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

/* Datagrams of one call, or of several that were joined. */
struct outgoing {
	struct session *session;
	uint32_t route;       /* enum ktsn_app_route; of KTSN_APP_ROUTE_KERNEL nothing else is filled in */
	uint64_t network_bit; /* in `refused` of the ring */
	struct ktsn_ring_message described; /* of each datagram, but for its length */
	struct ktsn_app_key key;            /* the destination, if `has_key`; else the connected one */
	bool has_key;
	uint32_t datagram_max_bytes;
	uint32_t segment_bytes; /* of all datagrams but the last; 0: there is one */
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

/* In a child: the parent's slots are the parent's. What the kernel has, it has for both. */
static inline void cork_forked(struct cork *cork)
{
	lock_reset(&cork->lock);
	if (atomic_load_explicit(&cork->state, memory_order_relaxed) == CORK_RING)
		atomic_store_explicit(&cork->state, CORK_EMPTY, memory_order_relaxed);
}

#endif
