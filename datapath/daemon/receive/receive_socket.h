/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says of a socket that an application wants to receive with through a ring, and the filter
 * on it, which counts what comes into its queue in the kernel.
 *
 * The thread of the pod that handed the socket over (pod_thread.h); system calls on that descriptor and
 * nothing else.
 */
#ifndef KTSN_DAEMON_RECEIVE_SOCKET_H
#define KTSN_DAEMON_RECEIVE_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- why a socket stays with the kernel ---- */

enum receive_refusal {
	RECEIVE_SERVED, /* it does not */
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
	RECEIVE_ENCRYPTED,
	RECEIVE_REFUSALS,
};

/* The end of a sentence. */
const char *receive_refusal_text(enum receive_refusal refusal);
/* The same of a socket with a ring that stays empty: enum ktsn_receive_left (ring/receive_layout.h). */
const char *receive_left_text(uint32_t left);

/* ---- sockets ---- */

enum { RECEIVE_RING_MIN_BYTES = 64 << 10, RECEIVE_RING_MAX_BYTES = 4 << 20 };

struct receive_state {
	enum receive_refusal refusal;
	/* The filter was attached just now. */
	bool attached;
	/* An eBPF filter was there before: ktsnd's own, if the socket is entered (receive_maps.h). */
	bool has_filter;
	size_t ring_bytes; /* of a ring for it */
};

/* A power of two that holds what the socket's queue would. */
size_t receive_ring_bytes(int buffer_bytes);
/* Reads a UDP socket, and attaches the program `filter` if nothing speaks against it. -1: there is none. */
void receive_socket_attach(int fd, int filter, struct receive_state *state);
/* Takes an eBPF filter off, as far as that is allowed. */
void receive_socket_detach(int fd);

#endif
