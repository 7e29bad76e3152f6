/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process's connection to ktsnd: the application socket, the ring and the doorbell. It is made when the
 * first socket asks for SO_TXTIME, and anew in a child after fork (connect.h). The ring outlives ktsnd: it is
 * handed back to a restarted one (register/restore.h).
 *
 * Any thread. Locks, in the order in which they are taken: the session's registration lock (registrations and
 * restoring exclude each other), a flow's own, the request lock (one request at a time on the socket).
 */
#ifndef KTSN_PRELOAD_SESSION_H
#define KTSN_PRELOAD_SESSION_H

#include "app_protocol.h"
#include "lock.h"
#include "ring_producer.h"

#include <stdbool.h>

/* A request whose reply did not come in time (request.h). */
struct unanswered {
	uint16_t type; /* enum ktsn_app_type; 0: none */
	uint16_t number;
	bool opens; /* a new flow: nobody will use the number that comes too late */
	/* CLOCK_MONOTONIC: until then the next request waits for the reply; after that it only looks for
	 * it. */
	int64_t until_ms;
};

struct session {
	uint32_t number;       /* 1, 2, ...: a flow registered with another number is not registered */
	_Atomic int socket_fd; /* -1: ktsnd is gone */
	uint32_t connections;  /* how often the ring was handed back; under the registration lock */
	int doorbell_fd;       /* the number stays when the doorbell is another ktsnd's */
	int ring_fd;           /* kept, to be handed back */
	struct ktsn_ring_producer ring;
	size_t ring_bytes; /* mapped */
	struct lock registration_lock;
	struct lock request_lock;
	uint16_t requests;            /* numbered so far; under request_lock */
	struct unanswered unanswered; /* under request_lock */

	/* Liveness of ktsnd (register/liveness.h). */
	_Atomic int64_t doorbell_seen_ns[KTSN_CLOCKS];
	_Atomic int64_t sign_ns;  /* CLOCK_MONOTONIC_COARSE: the last sign of life */
	_Atomic int64_t retry_ns; /* CLOCK_MONOTONIC: when a dead ktsnd may be looked for again */
	/* CLOCK_MONOTONIC: since when a new ktsnd answers that does not know all endpoints yet; 0: none. */
	_Atomic int64_t learning_since_ns;
	/* A restarted ktsnd did not want the ring, being of another version: a new session is due. */
	_Atomic bool refused;
};

/* The last session of this process, or of its parent. */
extern _Atomic(struct session *) session_current;

/* The session of this process (not its parent's), if its ring is of use; else NULL. No system call; ktsnd may
 * be dead. */
struct session *session_existing(void);

/* Whether the connection stands, as the kernel says. */
bool session_alive(struct session *session);

/* Whether ktsnd was found gone, and no successor has the ring yet: what was handed over since waits in it. No
 * system call. */
bool session_is_lost(void);

/* Ends the connection; what ktsnd was asked last will not be answered. */
void session_connection_drop(struct session *session);

void session_doorbell_ring(struct session *session);

#endif
