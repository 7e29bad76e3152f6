/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process's connection to ktsnd: the application socket, the ring and the doorbell. Made when the
 * first socket asks for SO_TXTIME, and anew in a child after fork. The ring outlives ktsnd: when another
 * has taken its place, the ring is handed back to it (restore.c).
 *
 * The socket's path is $KTSN_SOCKET, else /run/ktsn/app.sock. A process is meant for ktsnd where there is that socket,
 * whoever listens, or libktsn.so beside it, as in a pod (decision 12). Any thread.
 *
 * Locks, in the order in which they are taken: the gate (registrations and restoring exclude each other),
 * a flow's own, the request lock (one request at a time on the socket).
 */
#ifndef KTSN_PRELOAD_SESSION_H
#define KTSN_PRELOAD_SESSION_H

#include "app_protocol.h"
#include "lock.h"
#include "ring_producer.h"

#include <stdbool.h>

#define KTSN_DEFAULT_APP_SOCKET "/run/ktsn/app.sock"

/* A request whose reply did not come in time. The next waits for it, so that a ktsnd that stands still finds one of each
 * kind when it goes on and not hundreds. */
struct unanswered {
	uint16_t type; /* enum ktsn_app_type; 0: none */
	uint16_t number;
	bool opens;       /* a new flow: nobody will use the number that comes too late */
	int64_t until_ms; /* CLOCK_MONOTONIC: how long it is waited for; after that it is only looked for */
};

struct session {
	uint32_t number;       /* 1, 2, ...: a flow registered with another number is not registered */
	_Atomic int socket_fd; /* -1: ktsnd is gone */
	uint32_t connections;  /* how often the ring was handed back; under the gate */
	int doorbell_fd;       /* the number stays when the doorbell is another ktsnd's */
	int ring_fd;           /* kept, to be handed back */
	struct ktsn_ring_producer ring;
	size_t ring_bytes; /* mapped */
	struct lock gate;
	struct lock request_lock;
	uint16_t requests;            /* numbered so far; under request_lock */
	struct unanswered unanswered; /* under request_lock */

	/* Signs of life (session_check). */
	_Atomic int64_t doorbell_seen_ns[KTSN_CLOCKS];
	_Atomic int64_t sign_ns;  /* CLOCK_MONOTONIC: when the last was seen */
	_Atomic int64_t retry_ns; /* CLOCK_MONOTONIC: not before this is a dead ktsnd looked for again */
	_Atomic int64_t
		learning_since_ns; /* CLOCK_MONOTONIC: a new ktsnd answers and does not know everything yet */
	_Atomic bool
		refused; /* a restarted ktsnd did not want the ring, being of another version: a new one is due */
};

/*
 * The session, connecting if there is none or ktsnd is gone. The result stays valid for the life of the process. 0, or
 *   -ENOTCONN   there is neither ktsnd's socket nor a pod's folder, and never was for this process or its parents: it is
 *               not on the network
 *   -ETIMEDOUT  ktsnd has not answered, or is away: ask again. Where one listens it takes KTSN_APP_TIMEOUT_MS the first
 *               time, and after that no time, to say so
 *   -errno      why ktsnd, which answered, has no ring for this process
 */
int session_get(struct session **session);

/* The session if there is one in this process (not its parent's) whose ring is of use, without any system
 * call, whether or not ktsnd lives; else NULL. */
struct session *session_existing(void);

/* Sends a request, with a descriptor if fd_to_pass is not -1, and waits for its reply. 0 (the reply's own
 * status may still be an error), or -ETIMEDOUT when ktsnd did not answer, or is away. */
int session_request(struct session *session, const struct ktsn_app_request *request, int fd_to_pass,
		    struct ktsn_app_reply *reply);

/* Whether the connection stands, as the kernel says. */
bool session_alive(struct session *session);

/* Of what a request came to: ktsnd does not answer, or does not know yet where the pod is. */
static inline bool session_premature(int err)
{
	return err == -ETIMEDOUT || err == -ENETDOWN;
}

/* A timed message was refused because ktsnd did not answer. ktsnd hears of it with the next ring. */
void session_unanswered_count(void);

/* Ends the connection; what it was asked last will not be answered. */
void session_connection_drop(struct session *session);

/* Closes all descriptors. */
void session_close(struct session *session);

/* Wakes ktsnd. */
void session_doorbell_ring(struct session *session);

/*
 * After a message was put into the ring, or while waiting for space in it: looks for signs of life of
 * ktsnd, most often without a system call, and hands the ring back when it has been restarted.
 * `thoroughly`: ask the kernel whether the connection stands.
 */
void session_check(struct session *session, enum ktsn_clock clock, bool thoroughly);

/* Whether the descriptor is one of libktsn's own, which the application has no business with. */
bool session_owns_fd(int fd);

/* The lowest of libktsn's own descriptors at or above `fd`, or -1. */
int session_next_own_fd(int fd);

/* In the child, right after fork: the parent's session stays the parent's. */
void session_forked(void);

/* Whether the caller's process is the one whose memory this is: not a child made by vfork, whose
 * descriptors are its own but whose memory is its parent's. */
bool session_process_is_ours(void);

#endif
