/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of the application socket: connect, HELLO, HAND_BACK, request and reply. No state of its own.
 * Any thread.
 *
 * The socket's path is $KTSN_SOCKET, else /run/ktsn/app.sock.
 */
#ifndef KTSN_PRELOAD_HANDSHAKE_H
#define KTSN_PRELOAD_HANDSHAKE_H

#include "session.h"

#include <stdint.h>

#define KTSN_DEFAULT_APP_SOCKET "/run/ktsn/app.sock"

/* The descriptors of a reply to HELLO, in order. */
enum { HANDSHAKE_RING = 0, HANDSHAKE_DOORBELL = 1, HANDSHAKE_FDS = 2 };

/*
 * Connects and says HELLO; the reply will come at *socket_fd. 0, or
 *   -ENOTCONN   no ktsnd is meant to be: there is neither a socket nor, in its place, a pod's folder
 *   -ETIMEDOUT  ktsnd is meant to be, and nobody listens or takes more connections now
 *   -errno      another error
 */
int handshake_begin(int *socket_fd);

/* Takes the reply to HELLO, until until_ms (CLOCK_MONOTONIC) at the latest, and fills all of *session but its
 * number. 0; -ETIMEDOUT while there is no reply: the socket stays open, to be asked again; else -errno, and
 * nothing is left open. */
int handshake_end(struct session *session, int socket_fd, int64_t until_ms);

/* Connects to a restarted ktsnd and hands it the session's ring. The doorbell's descriptor keeps its number
 * and becomes the new one's. 0 or -errno as handshake_begin(); without success the session has no
 * connection. */
int handshake_again(struct session *session);

/* The versions of the application protocol that this library speaks. Variables, so that tests can make up
 * others. */
extern uint16_t handshake_version_oldest, handshake_version_newest;

/* A request of that type that says nothing else. */
struct ktsn_app_request handshake_request(enum ktsn_app_type type);

/* Sends one request, in the version that ktsnd understands. fd_to_pass: -1 for none. 0 or -errno. */
int handshake_send(int socket_fd, const struct ktsn_app_request *request, int fd_to_pass);

/* Takes one reply, until until_ms (CLOCK_MONOTONIC) at the latest; one that is there already in any case.
 * received_fds: room for HANDSHAKE_FDS, set to -1 where none came; or NULL, then descriptors that come are
 * closed. 0, -ETIMEDOUT or -errno. */
int handshake_receive(int socket_fd, struct ktsn_app_reply *reply, int received_fds[HANDSHAKE_FDS],
		      int64_t until_ms);

/* Whether the reply refuses the version of the request. Requests have the reply's from now on: the caller is
 * to repeat his. */
bool handshake_version_lower(const struct ktsn_app_reply *reply);

#endif
