/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process's connection to ktsnd: the application socket, the ring and the doorbell. Made when the
 * first socket asks for SO_TXTIME, and anew in a child after fork.
 *
 * The socket's path is $KTSN_SOCKET, else /run/ktsn/app.sock. Any thread; requests are serialised and
 * take at most KTSN_APP_TIMEOUT_MS each.
 */
#ifndef KTSN_PRELOAD_SESSION_H
#define KTSN_PRELOAD_SESSION_H

#include "app_protocol.h"
#include "ring_producer.h"

#define KTSN_DEFAULT_APP_SOCKET "/run/ktsn/app.sock"

struct session {
	uint32_t number; /* 1, 2, ...: a flow registered with another number is not registered */
	int socket_fd;
	int doorbell_fd;
	struct ktsn_ring_producer ring;
};

/* The session, connecting first if there is none. 0 and *session, or -errno. The result stays valid for
 * the life of the process. */
int session_get(struct session **session);

/* The session if there is one in this process (not its parent's), without any system call; else NULL. */
struct session *session_existing(void);

/* Sends a request, with a descriptor if fd_to_pass is not -1, and waits for its reply. 0 (the reply's own
 * status may still be an error), or -ENETDOWN when ktsnd did not answer. */
int session_request(struct session *session, const struct ktsn_app_request *request, int fd_to_pass,
		    struct ktsn_app_reply *reply);

/* Wakes ktsnd. */
void session_doorbell_ring(struct session *session);

/* Whether the descriptor is one of libktsn's own, which the application has no business with. */
bool session_owns_fd(int fd);

#endif
