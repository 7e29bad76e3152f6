/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening unix SEQPACKET sockets. Control thread.
 */
#ifndef KTSN_SYS_UNIX_SOCKET_H
#define KTSN_SYS_UNIX_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Listens at an absolute path. Replaces the socket of a dead or dying process.
 * 0 with *fd; or -errno: -EADDRINUSE when a live process listens there, -EEXIST when something else than a
 * socket is there, -ETXTBSY when its folder is locked.
 */
int unix_listen(const char *path, mode_t mode, int *fd);

/* Removes a socket without a listener, also a stream socket. 0 when the path is free, or -errno as
 * unix_listen(). */
int unix_left_over_remove(const char *path);

/* Makes this process the peer of connections to a listening socket that another process has created, so that
 * unix_peer_is_dying() is about this process. */
void unix_listener_take(int fd);

/* Whether the listening process at the other end of a connection was killed, but still exists because the
 * kernel cannot end one of its threads yet: it will not answer. Returns false if this cannot be determined.
 */
bool unix_peer_is_dying(int fd);

/* Connects with a timeout, which also applies to each message that is sent. Returns the descriptor, or
 * -errno: -EAGAIN when the listener has not accepted the connection in time. */
int unix_connect(const char *path, int timeout_s);
/* Connects with a non-blocking socket. */
int unix_connect_at_once(const char *path);

/* Whether a process listens at a path and is not dying. Does not block. */
bool unix_is_listened_at(const char *path);

/* Accepts a connection, non-blocking. Returns its descriptor or -errno. Without free descriptors the
 * connection is accepted by the reserved one, or it would stay readable, and *refused: the caller must close
 * it. */
int unix_accept(int listen_fd, bool *refused);

/* Whether pods may use this many more descriptors. Others are reserved for the control socket, its requests,
 * and unfinished works. */
bool unix_descriptors_suffice(unsigned int wanted);

/* Sends a message with descriptors, UNIX_FDS_MAX at most; `flags` as of sendmsg(), without SIGPIPE in any
 * case. 0 or -errno. */
enum { UNIX_FDS_MAX = 4 };
int unix_send(int fd, const void *bytes, size_t count, const int *fds, size_t fd_count, int flags);

/* Returns a text for an error of unix_listen(), with what to do. */
const char *unix_listen_advice(int err);

#endif
