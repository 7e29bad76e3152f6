/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests on the application socket of ktsnd, and their replies (ring/app_protocol.h).
 */
#ifndef KTSN_RELAY_REQUEST_H
#define KTSN_RELAY_REQUEST_H

#include "app_protocol.h"

#include <stdbool.h>

/* Descriptors of a reply: of HELLO the ring and its doorbell, of HAND_BACK the doorbell. */
enum { REPLY_FDS = 2 };

/* Connects to the socket of that name in the current folder. Its descriptor, or -errno. Never waits. */
int request_connect(const char *socket_name);

/* Without version and number. */
struct ktsn_app_request request_make(enum ktsn_app_type type);

/* Sends the request in that version of the protocol, with fd_to_pass unless this is -1. 0, or -errno. */
int request_send(int socket_fd, uint16_t version, const struct ktsn_app_request *request, int fd_to_pass);

/* 0 when there is something to receive, -ETIMEDOUT, or another -errno. */
int reply_wait(int socket_fd, int timeout_ms);

/* 0, -EAGAIN when there is none, -ECONNRESET at the end of the connection, -EPROTO when it is no reply.
 * Descriptors that did not come are -1; without `fds` they are closed. */
int reply_receive(int socket_fd, struct ktsn_app_reply *reply, int fds[REPLY_FDS]);

/* Returns true if ktsnd refused the request only because of its version and serves an older one, not below
 * `oldest`. *version becomes that one; the caller repeats the request. */
bool reply_lowers_version(const struct ktsn_app_reply *reply, uint16_t oldest, uint16_t *version);

#endif
