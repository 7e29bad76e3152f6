/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What several calls send as one: UDP_CORK and MSG_MORE, as the kernel joins it (net/ipv4/udp.c, udp_sendmsg). The first
 * says time, address and segments; of the others only the payload counts. What the first sent to the kernel,
 * because it had no time or another way, the kernel joins.
 *
 * Any thread. The lock comes before those of session.h; nobody waits for space while he holds it.
 */
#ifndef KTSN_PRELOAD_CORK_H
#define KTSN_PRELOAD_CORK_H

#include "lock.h"
#include "outgoing.h"

#include <stdatomic.h>
#include <sys/socket.h>

enum cork_state {
	CORK_EMPTY,
	CORK_RING,   /* slots of ours are being filled */
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

/* Nothing of what is in the ring leaves. Its slots are given back, unless the ring is another process's or of no use any
 * more: `current` is the session that there is. Under the lock, or nobody else uses the socket. */
static inline void cork_abandon(struct cork *cork, const struct session *current)
{
	if (atomic_load_explicit(&cork->state, memory_order_relaxed) != CORK_RING)
		return;
	if (cork->outgoing.session == current)
		slots_give_back(cork->outgoing.session, &cork->outgoing.slots, 0);
	atomic_store_explicit(&cork->state, CORK_EMPTY, memory_order_relaxed);
}

/* In a child: the parent's slots are the parent's. What the kernel has it has for both. */
static inline void cork_forked(struct cork *cork)
{
	lock_reset(&cork->lock);
	if (atomic_load_explicit(&cork->state, memory_order_relaxed) == CORK_RING)
		atomic_store_explicit(&cork->state, CORK_EMPTY, memory_order_relaxed);
}

struct flow;

/* Whether a call that sends with these flags joins something. */
bool cork_concerns(const struct flow *flow, int flags);

/* Nothing is there to be joined any more: send it as any other. Outside the range of errno. */
#define CORK_NOTHING (-0x10002)

/* Sends what it concerns, with a time or without. Bytes sent, -errno, or CORK_NOTHING. */
long cork_send(struct flow *flow, int fd, const struct msghdr *message, int flags);

/* UDP_CORK was taken away: what is there leaves, if it can. */
void cork_end(struct flow *flow, int fd);

#endif
