/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which descriptors are sockets that asked for SO_TXTIME, and what libktsn knows of each.
 *
 * Any thread. A look-up of a descriptor that never asked costs two loads. Flows live in memory that is
 * never unmapped; a use count keeps one from being reused while a thread still sends through it.
 */
#ifndef KTSN_PRELOAD_FLOW_TABLE_H
#define KTSN_PRELOAD_FLOW_TABLE_H

#include "layout.h"
#include "lock.h"

#include <stdbool.h>
#include <stdint.h>

enum { FLOW_DESTINATIONS = 8 };

/* An address to which the flow sends, as ktsnd answered it. */
struct destination {
	uint32_t number;
	uint32_t address_be;
	uint16_t port_be;
	uint32_t route; /* enum ktsn_app_route; 0: empty entry */
	uint32_t payload_max_bytes;
};

struct flow {
	_Atomic uint32_t users; /* the table's reference counts as one */
	struct flow *next_free;
	int txtime_clockid; /* as the application set them */
	uint32_t txtime_flags;
	bool kernel_knows; /* the kernel accepted SO_TXTIME too */
	enum ktsn_clock clock;

	/* Written under `lock`, then published by `session`. */
	struct lock lock;
	_Atomic uint32_t session; /* the session it is registered with; 0: with none */
	uint32_t number_session;  /* the session that gave the number; it stays when an address is refused */
	uint32_t number;
	struct destination connected; /* route 0: not connected */
	struct destination others[FLOW_DESTINATIONS];
	uint32_t others_next; /* next entry to replace */
};

/* The flow of a descriptor, to be given back by flow_release(); NULL when it has none. */
struct flow *flow_acquire(int fd);
void flow_release(struct flow *flow);

/* Makes a flow and enters it for the descriptor, replacing one that stands there. NULL when the
 * descriptor is beyond the table or there is no memory. Acquired, as by flow_acquire(). */
struct flow *flow_enter(int fd);

/* Takes the descriptor's flow out of the table; acquired, or NULL. */
struct flow *flow_remove(int fd);

#endif
