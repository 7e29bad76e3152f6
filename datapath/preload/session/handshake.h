/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The begin of a connection to ktsnd: HELLO, or HAND_BACK of a ring that outlived the ktsnd before. The path
 * of the socket is $KTSN_SOCKET, else /run/ktsn/app.sock. Callable from any thread.
 */
#ifndef KTSN_PRELOAD_HANDSHAKE_H
#define KTSN_PRELOAD_HANDSHAKE_H

#include "client.h"
#include "session.h"

#define KTSN_DEFAULT_APP_SOCKET "/run/ktsn/app.sock"

/* The version of all requests of this process. A variable so that tests can set other limits. */
extern struct ktsn_client_version handshake_version;

/*
 * handshake_begin connects and sends HELLO; the reply will arrive at *socket_fd. 0, or
 *   -ENOTCONN   this process is not in a pod with ktsnd: there is neither a socket nor a pod's folder,
 *               or it may not open unix sockets
 *   -ETIMEDOUT  ktsnd does not listen at present, or accepts no more connections
 *   -errno      another error
 */
int handshake_begin(int *socket_fd);

/* handshake_end receives the reply to HELLO until until_ms (CLOCK_MONOTONIC) and fills in *session, except
 * its number. 0; -ETIMEDOUT while there is no reply: the socket stays open, and the caller may call again;
 * else -errno, with everything closed. */
int handshake_end(struct session *session, int socket_fd, int64_t until_ms);

/* handshake_again connects to a restarted ktsnd and hands it the session's ring. The doorbell's descriptor
 * keeps its number and becomes the new one's. 0 or -errno as handshake_begin(); after an error the session
 * has no connection. */
int handshake_again(struct session *session);

#endif
