/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session is this process's connection to ktsnd: the application socket, the ring and the doorbell. It is
 * created when the first socket sets SO_TXTIME, and again in a child after fork (connect.h). The ring
 * outlives ktsnd: it is handed back to a restarted one (register/liveness.h).
 *
 * Used by any thread. Locks, in the order in which they are taken: the session's registration lock
 * (registering and restoring exclude each other), a flow's lock, the request lock (one request at a time on
 * the socket).
 */
#ifndef KTSN_PRELOAD_SESSION_H
#define KTSN_PRELOAD_SESSION_H

#include "app_protocol.h"
#include "lock.h"
#include "ring_producer.h"

#include <stdbool.h>

/* A request without a reply in time (request.h). */
struct unanswered {
	uint16_t type; /* enum ktsn_app_type; 0: none */
	uint16_t number;
	bool opens; /* a new flow, whose number is not used if it arrives late */
	/* CLOCK_MONOTONIC: until then the next request waits for the reply; later it only looks for it. */
	int64_t until_ms;
};

struct session {
	uint32_t number;       /* 1, 2, ...: a flow registered with another number is not registered */
	_Atomic int socket_fd; /* -1: ktsnd is gone */
	uint32_t connections;  /* how often the ring was handed back; under the registration lock */
	int doorbell_fd;       /* its number stays when another ktsnd replaces the doorbell */
	int ring_fd;           /* kept for HAND_BACK */
	struct ktsn_ring_producer ring;
	size_t ring_bytes; /* mapped */
	struct lock registration_lock;
	struct lock request_lock;
	uint16_t requests;            /* number of the last one; under request_lock */
	struct unanswered unanswered; /* under request_lock */

	/* Liveness of ktsnd (register/liveness.h). */
	_Atomic int64_t doorbell_seen_ns[KTSN_CLOCKS];
	_Atomic int64_t sign_ns;  /* CLOCK_MONOTONIC_COARSE: the last sign of life */
	_Atomic int64_t retry_ns; /* CLOCK_MONOTONIC: when to try to reach a dead ktsnd again */
	/* CLOCK_MONOTONIC: when a ktsnd was first reached that does not know all endpoints yet; 0: none. */
	_Atomic int64_t learning_since_ns;
	/* A restarted ktsnd refused the ring, because it has another version: a new session is due. */
	_Atomic bool refused;
};

/* session_current is the last session of this process, or of its parent. */
extern _Atomic(struct session *) session_current;

/* session_existing returns the session of this process, not of its parent, if its ring can be used; else
 * NULL. No system call; ktsnd may be dead. */
struct session *session_existing(void);

/* session_alive asks the kernel whether the connection stands. */
bool session_alive(struct session *session);

/* session_is_lost returns whether ktsnd has ended and no successor has the ring yet; messages wait in it. No
 * system call. */
bool session_is_lost(void);

/* session_connection_drop closes the connection. The last request gets no reply. */
void session_connection_drop(struct session *session);

void session_doorbell_ring(struct session *session);

#endif
