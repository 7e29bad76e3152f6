/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether a socket of an application can have a receive ring, and attaches the filter that counts the
 * datagrams in its queue in the kernel.
 *
 * Runs in the thread of the application's pod (pod_thread.h); makes only system calls on that descriptor.
 */
#ifndef KTSN_DAEMON_RECEIVE_SOCKET_H
#define KTSN_DAEMON_RECEIVE_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- why a socket stays with the kernel ---- */

enum receive_refusal {
	RECEIVE_SERVED, /* it does not stay with the kernel */
	RECEIVE_NOT_ASKED,
	RECEIVE_NO_PROGRAM,
	RECEIVE_KIND,
	RECEIVE_FILTER,
	RECEIVE_GRO,
	RECEIVE_ENCAPSULATION,
	RECEIVE_DEVICE,
	RECEIVE_SOCKETS,
	RECEIVE_MEMORY,
	RECEIVE_RATE,
	RECEIVE_KERNEL,
	RECEIVE_OPTION,
	RECEIVE_SHARED,
	RECEIVE_IO_URING,
	RECEIVE_ENCRYPTED,
	RECEIVE_REFUSALS,
};

/* Returns the reason as a clause for a message. */
const char *receive_refusal_text(enum receive_refusal refusal);
/* Returns why the ring of a socket stays empty: enum ktsn_receive_left (ring/receive_layout.h). */
const char *receive_left_text(uint32_t left);

/* ---- sockets ---- */

enum { RECEIVE_RING_MIN_BYTES = 64 << 10, RECEIVE_RING_MAX_BYTES = 4 << 20 };

struct receive_state {
	enum receive_refusal refusal;
	/* receive_socket_attach() has attached the filter. */
	bool attached;
	/* The socket already had an eBPF filter: ktsnd's own, if the socket is entered (receive_maps.h). */
	bool has_filter;
	size_t ring_bytes; /* size of a ring for it */
};

/* Returns the size of a ring that holds as much as the socket's queue, a power of two. */
size_t receive_ring_bytes(int buffer_bytes);
/* Checks a UDP socket, and attaches the program `filter` (-1: none) unless the socket is refused. */
void receive_socket_attach(int fd, int filter, struct receive_state *state);
/* Detaches an eBPF filter, unless the filter is locked. */
void receive_socket_detach(int fd);

#endif
