/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Talking to ktsnd on the application socket: connect, HELLO, request and reply. No state of its own.
 */
#ifndef KTSN_PRELOAD_HANDSHAKE_H
#define KTSN_PRELOAD_HANDSHAKE_H

#include "session.h"

enum { HANDSHAKE_RING = 0, HANDSHAKE_DOORBELL = 1, HANDSHAKE_FDS = 2 };

/* Connects and fills all of *session but its number. 0 or -errno; then nothing is left open. */
int handshake(struct session *session);

/* Connects to a restarted ktsnd and hands it the session's ring; the doorbell's number becomes the new
 * one's. 0 or -errno; then the session has no connection. */
int handshake_again(struct session *session);

/* One request and its reply. fd_to_pass: -1 for none. received_fds: room for HANDSHAKE_FDS, set to -1
 * where none came; or NULL, then descriptors that come are closed. 0 or -errno. */
int handshake_exchange(int socket_fd, const struct ktsn_app_request *request, int fd_to_pass,
		       struct ktsn_app_reply *reply, int received_fds[HANDSHAKE_FDS]);

#endif
