/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An inbox: a UDP socket with a receive ring, into which the program at the uplink puts datagrams
 * (ring/receive_layout.h). The kernel's own queue stays beside it. All descriptors of the socket in this
 * process share one inbox (inbox_table.h).
 *
 * Any thread. What is not atomic is written before the inbox is entered, or under `lock`.
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

/* The socket in one epoll set: a copy of the ring's descriptor, with the application's data. */
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
	_Atomic bool nonblocking;      /* O_NONBLOCK, as it was seen last */
	_Atomic bool reading;          /* counted in *readers, by this process */
	_Atomic bool leaving;          /* to be the kernel's again when the ring is empty */
	_Atomic int64_t looked_ns;     /* CLOCK_MONOTONIC_COARSE: the kernel was asked for errors */
	_Atomic uint32_t errors_seen;  /* what poll and epoll had reported then */
	_Atomic int error;             /* inbox_error_keep(); 0: none is kept */
	_Atomic uint32_t kernel_drops; /* of the socket's own queue, as the kernel said then */
	_Atomic bool kernel_turn;      /* of two queues that both hold something, whose turn it is */
	/* *kernel: up to where the kernel's queue was found empty; and since when it has been as it is. */
	_Atomic uint64_t kernel_seen, kernel_noticed;
	_Atomic int64_t kernel_noticed_ns;

	struct lock lock;
	struct inbox_member members[INBOX_MEMBERS_MAX];
};

/* Whether the ring holds something. */
static inline bool inbox_has(const struct inbox *inbox)
{
	return ktsn_receive_any(&inbox->reader);
}

/* recvmmsg() returns datagrams or an error, and keeps an error that it finds after a datagram for the next
 * call, as the kernel does. */
static inline void inbox_error_keep(struct inbox *inbox, int error)
{
	atomic_store_explicit(&inbox->error, error, memory_order_relaxed);
}

static inline bool inbox_error_kept(const struct inbox *inbox)
{
	return atomic_load_explicit(&inbox->error, memory_order_relaxed) != 0;
}

/* From now on datagrams come into the ring. */
static inline void inbox_start(struct inbox *inbox)
{
	if (!atomic_exchange_explicit(&inbox->reading, true, memory_order_relaxed))
		atomic_fetch_add_explicit(inbox->readers, 1, memory_order_relaxed);
}

/* From now on none do, unless another process reads the ring: they are in the kernel's queue. What is in the
 * ring is still to be read. Needs no ktsnd. */
static inline void inbox_stop(struct inbox *inbox)
{
	if (atomic_exchange_explicit(&inbox->reading, false, memory_order_relaxed))
		atomic_fetch_sub_explicit(inbox->readers, 1, memory_order_seq_cst);
}

/* Whether the kernel's queue gets all that comes from now on. */
static inline bool inbox_ended(const struct inbox *inbox)
{
	return atomic_load_explicit(inbox->ended, memory_order_relaxed) != 0;
}

#endif
