/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Talking to ktsnd on the application socket: connect, HELLO, request and reply. No state of its own.
 */
#ifndef KTSN_PRELOAD_HANDSHAKE_H
#define KTSN_PRELOAD_HANDSHAKE_H

#include "session.h"

#include <stdint.h>

enum { HANDSHAKE_RING = 0, HANDSHAKE_DOORBELL = 1, HANDSHAKE_FDS = 2 };

/* Connects and says HELLO, without waiting for the answer: *socket_fd is where it will come. 0; -ENOTCONN where no ktsnd is
 * meant to be: there is neither a socket nor, in its place, a pod's folder; -ETIMEDOUT when one is meant to be and nobody
 * listens, or takes no more connections now; else -errno. */
int handshake_begin(int *socket_fd);

/* Takes the answer to HELLO, until then at the latest, and fills all of *session but its number. 0; -ETIMEDOUT while there is
 * none: then the socket stays open, to be asked again; else -errno, and nothing is left open. */
int handshake_end(struct session *session, int socket_fd, int64_t until_ms);

/* Connects to a restarted ktsnd and hands it the session's ring; the doorbell's number becomes the new
 * one's. 0 or -errno as above; then the session has no connection. */
int handshake_again(struct session *session);

/* Sends one request. fd_to_pass: -1 for none. 0 or -errno. */
int handshake_send(int socket_fd, const struct ktsn_app_request *request, int fd_to_pass);

/* Takes one reply, until then at the latest; one that is there already in any case. received_fds: room for HANDSHAKE_FDS, set
 * to -1 where none came; or NULL, then descriptors that come are closed. 0, -ETIMEDOUT or -errno. */
int handshake_receive(int socket_fd, struct ktsn_app_reply *reply, int received_fds[HANDSHAKE_FDS],
		      int64_t until_ms);

/* CLOCK_MONOTONIC. */
int64_t handshake_now_ms(void);

#endif
