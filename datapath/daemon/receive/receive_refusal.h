/* SPDX-License-Identifier: Apache-2.0 */
/* Why a socket stays with the kernel. */
#ifndef KTSN_DAEMON_RECEIVE_REFUSAL_H
#define KTSN_DAEMON_RECEIVE_REFUSAL_H

#include <stdint.h>

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

#endif
