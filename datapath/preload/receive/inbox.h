/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An inbox is a UDP socket with a receive ring, into which the program at the uplink writes datagrams
 * (ring/receive_layout.h). The kernel's queue of the socket stays in use. All descriptors of the socket in
 * this process share one inbox (inbox_table.h).
 *
 * Used by any thread. Fields that are not atomic are written before the inbox is entered, or under `lock`.
 */
#ifndef KTSN_PRELOAD_INBOX_H
#define KTSN_PRELOAD_INBOX_H

#include "lock.h"
#include "receive_reader.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INBOX_MEMBERS_MAX = 8 };

/* The socket in an epoll set: a copy of the ring's descriptor, with the application's data. */
struct inbox_member {
	int epoll_fd, fd;
	int copy_fd; /* -1: unused */
};

struct inbox {
	_Atomic uint32_t users;   /* each entry of the table counts as one */
	_Atomic uint32_t entries; /* of the table */
	struct inbox *next_free;

	int family;      /* of the socket */
	uint64_t cookie; /* socket_cookie() */
	int ring_fd;
	void *consumer_page, *producer_pages, *control_page;
	size_t producer_bytes;
	struct ktsn_receive_reader reader;
	/* In the control page: the first two are written here, the others by the programs. */
	_Atomic uint32_t *sleeping, *readers;
	const _Atomic uint64_t *dropped, *kernel;
	const _Atomic uint32_t *ended; /* written by ktsnd */

	/* The connection by which ktsnd gave the ring: session.number, session.connections. */
	uint32_t session, connection;
	_Atomic int64_t renewed_ms; /* CLOCK_MONOTONIC: when another connection was looked for */

	_Atomic uint32_t wants;        /* INBOX_WANTS_..., inbox_options.h */
	_Atomic bool nonblocking;      /* O_NONBLOCK, as last read */
	_Atomic bool reading;          /* counted in *readers, by this process */
	_Atomic bool leaving;          /* the kernel serves the socket when the ring is empty */
	_Atomic int64_t looked_ns;     /* CLOCK_MONOTONIC_COARSE: the kernel was asked for errors */
	_Atomic uint32_t errors_seen;  /* errors that poll and epoll had reported then */
	_Atomic int error;             /* inbox_error_keep(); 0: none is kept */
	_Atomic uint32_t kernel_drops; /* of the socket's queue, as read then */
	_Atomic bool kernel_turn;      /* whose turn it is when both queues hold datagrams */
	/* Values of *kernel: when the kernel's queue was last empty; and the last one, with the time of its
	 * change. */
	_Atomic uint64_t kernel_seen, kernel_noticed;
	_Atomic int64_t kernel_noticed_ns;

	struct lock lock;
	struct inbox_member members[INBOX_MEMBERS_MAX];
};

/* inbox_has returns whether the ring holds a datagram. */
static inline bool inbox_has(const struct inbox *inbox)
{
	return ktsn_receive_any(&inbox->reader);
}

/* inbox_error_keep keeps an error for the next call: recvmmsg() returns datagrams or an error, and an error
 * after a datagram with the next call, as the kernel does. */
static inline void inbox_error_keep(struct inbox *inbox, int error)
{
	atomic_store_explicit(&inbox->error, error, memory_order_relaxed);
}

static inline bool inbox_error_kept(const struct inbox *inbox)
{
	return atomic_load_explicit(&inbox->error, memory_order_relaxed) != 0;
}

/* inbox_start makes the program write datagrams into the ring. */
static inline void inbox_start(struct inbox *inbox)
{
	if (!atomic_exchange_explicit(&inbox->reading, true, memory_order_relaxed))
		atomic_fetch_add_explicit(inbox->readers, 1, memory_order_relaxed);
}

/* inbox_stop has datagrams go to the kernel's queue, unless another process reads the ring. Datagrams in
 * the ring stay readable. Does not need ktsnd. */
static inline void inbox_stop(struct inbox *inbox)
{
	if (atomic_exchange_explicit(&inbox->reading, false, memory_order_relaxed))
		atomic_fetch_sub_explicit(inbox->readers, 1, memory_order_seq_cst);
}

/* inbox_ended returns whether the kernel's queue gets all new datagrams. */
static inline bool inbox_ended(const struct inbox *inbox)
{
	return atomic_load_explicit(inbox->ended, memory_order_relaxed) != 0;
}

#endif
