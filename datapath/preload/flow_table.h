/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which descriptors are sockets that asked for SO_TXTIME, and what libktsn knows of each.
 *
 * Any thread. A look-up of a descriptor that never asked costs two loads. Flows live in memory that is
 * never unmapped; a use count keeps one from being reused while a thread still sends through it.
 */
#ifndef KTSN_PRELOAD_FLOW_TABLE_H
#define KTSN_PRELOAD_FLOW_TABLE_H

#include "aim.h"
#include "cork.h"
#include "layout.h"
#include "lock.h"
#include "options.h"
#include "waiting.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FLOW_DESTINATIONS = 8 };

/* Where the flow sends, as ktsnd answered it. Whole words of 64 bits: compared and copied as such. */
struct destination {
	struct ktsn_app_key key; /* all 0 of the one that the socket is connected to */
	uint32_t number;
	uint32_t route; /* enum ktsn_app_route; 0: empty entry */
	uint32_t payload_max_bytes;
	uint32_t lost; /* 1: a restarted ktsnd did not take it again */
};

struct flow {
	_Atomic uint32_t users; /* the table's reference counts as one */
	struct flow *next_free;
	int txtime_clockid; /* as the application set them */
	uint32_t txtime_flags;
	bool kernel_knows; /* the kernel accepted SO_TXTIME too */
	bool refused;      /* ktsnd said no when it asked for SO_TXTIME; said again to each timed message */
	_Atomic bool
		left_to_kernel; /* no ktsnd was meant to be there when it asked for SO_TXTIME: it stays the kernel's */
	_Atomic bool
		stranger; /* it came from another process, and ktsnd has not said yet whether it knows it */
	_Atomic bool
		elsewhere; /* it is in a network namespace in which the pod has no endpoint, as ktsnd said last */
	enum ktsn_clock clock;
	struct socket_kind kind;
	uint64_t cookie; /* the kernel's, of the socket; 0: none */
	struct datagram_options options;
	uint32_t multicast_interface; /* set by IP_MULTICAST_IF, which the kernel does not tell; 0: none */

	/* Written under `lock`, then published by `session`. */
	struct lock lock;
	_Atomic uint32_t session; /* the session it is registered with; 0: with none */
	uint32_t connection;      /* of the session to which it was to be restored last */
	bool lost;                /* and was not */
	uint32_t number_session;  /* the session that gave the number; it stays when an address is refused */
	uint32_t number;
	struct destination connected; /* route 0: not connected */
	struct destination others[FLOW_DESTINATIONS];
	/* Odd while `lock`'s holder changes the two above: sending reads them without the lock, so that it can be
	 * done in a signal handler and by many threads at once. */
	_Atomic uint32_t destinations_version;
	uint32_t others_next; /* next entry to replace */

	/* Bytes that its messages take of the send buffer, as ktsn_ring_charge_bytes(); since it was registered, from
	 * what ktsnd had counted for its number. */
	_Atomic uint64_t sent_bytes;
	_Atomic uint64_t released_seen;     /* of it, as ktsnd said last */
	_Atomic uint32_t send_buffer_bytes; /* SO_SNDBUF; 0: not read yet */
	_Atomic bool write_shut_down;       /* shutdown() for writing */
	_Atomic int64_t error_looked_ns;    /* CLOCK_MONOTONIC_COARSE: when SO_ERROR was asked last */
	_Atomic int64_t
		asked_again_ns; /* the same clock: when ktsnd was asked last what it had answered already */
	struct waiting waiting;
	struct cork cork;
};

/* The flow of a descriptor, to be given back by flow_release(); NULL when it has none. */
struct flow *flow_acquire(int fd);
/* True when it was the last use: then the socket has been closed, and what the flow has is to be ended. */
bool flow_release(struct flow *flow);
/* Gives back the memory of a flow that nobody uses any more. */
void flow_dispose(struct flow *flow);

/* A flow whose last use ended in flow_each() or flow_acquire(), whose callers may hold locks: to be ended and disposed of
 * (registration.h, flows_end()). NULL: none, as nearly always. */
struct flow *flow_ended_take(void);

/* Makes a flow for the caller to fill in and then enter by flow_share(). NULL without memory. Acquired, as by
 * flow_acquire(). */
struct flow *flow_create(void);

/* Enters an acquired flow for another descriptor of the same socket, whose entry must be empty. 0 or
 * -errno. The caller still holds the flow. */
int flow_share(struct flow *flow, int fd);

/* Calls `visit` for each entry of the table with an acquired flow, which it gives back; true when the flow
 * is to be ended, as flow_release() says. */
void flow_each(bool (*visit)(int fd, struct flow *flow, void *context), void *context);

/* In the child, right after fork: locks that other threads of the parent held. */
void flows_forked(void);

/* The table, for the two looks below, which every call of the application pays. Two levels: 1,048,576 descriptors (the
 * kernel's default nr_open), a page of pointers at a time. */
enum { FLOW_PAGE_ENTRIES = 1024, FLOW_PAGES = 1024 };
extern _Atomic(_Atomic(struct flow *) *) flow_pages[FLOW_PAGES];
extern _Atomic bool flow_entered;

/* Whether any descriptor ever had one: a look that is cheaper still. */
static inline bool flows_any(void)
{
	return atomic_load_explicit(&flow_entered, memory_order_relaxed);
}

static inline _Atomic(struct flow *) *flow_entry(int fd)
{
	_Atomic(struct flow *) *page;

	if (fd < 0 || fd >= FLOW_PAGES * FLOW_PAGE_ENTRIES)
		return NULL;
	page = atomic_load_explicit(&flow_pages[fd / FLOW_PAGE_ENTRIES], memory_order_acquire);
	return page ? &page[fd % FLOW_PAGE_ENTRIES] : NULL;
}

/* Whether the descriptor has an entry. */
static inline bool flow_known(int fd)
{
	_Atomic(struct flow *) *entry = flow_entry(fd);

	return entry && atomic_load_explicit(entry, memory_order_relaxed);
}

/* Whether any of these has one. Not in line, and not of constants: the C library declares that poll only writes what it
 * is given, and the compiler believes it. */
bool flows_any_polled(struct pollfd *fds, nfds_t count);

/* Takes the descriptor's flow out of the table; acquired, or NULL. */
struct flow *flow_remove(int fd);

#endif
