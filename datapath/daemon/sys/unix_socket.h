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
 * Listens at an absolute path. A socket that a dead process left there is replaced, and that of a dying one.
 * 0 with *fd; or -errno: -EADDRINUSE when a live process listens there, -EEXIST when something else than a
 * socket is there, -ETXTBSY when its folder is locked.
 */
int unix_listen(const char *path, mode_t mode, int *fd);

/* Removes a socket at which nobody listens. 0 when the path is free, or -errno as unix_listen(); a stream
 * socket's is seen as well. */
int unix_left_over_remove(const char *path);

/* A listening socket that another process made is this one's: when that dies, this one lives. */
void unix_listener_take(int fd);

/* Whether the process that listens at the other end of a connection was ended, and is still there for a
 * thread that the kernel cannot end yet: nobody will answer. False if that cannot be seen. */
bool unix_peer_is_dying(int fd);

/* Connects to one, which takes so long at most, as does each message that is sent. The descriptor, or -errno:
 * -EAGAIN when one listens that accepted nobody. */
int unix_connect(const char *path, int timeout_s);
/* The same, and blocks neither here nor later. */
int unix_connect_at_once(const char *path);

/* Whether somebody listens at a path, who is not dying. Does not block. */
bool unix_is_listened_at(const char *path);

/* Accepts a connection, non-blocking. Its descriptor or -errno. When descriptors run out it is accepted all
 * the same, or it would be offered again without end, and *refused says that the caller is to close it. */
int unix_accept(int listen_fd, bool *refused);

/* Whether there are descriptors for pods: so many, and those that are kept for the control socket, what is
 * asked for on it, and works that are under way. */
bool unix_descriptors_suffice(unsigned int wanted);

/* Sends a message with descriptors, UNIX_FDS_MAX at most; `flags` as of sendmsg(), without SIGPIPE in any
 * case. 0 or -errno. */
enum { UNIX_FDS_MAX = 4 };
int unix_send(int fd, const void *bytes, size_t count, const int *fds, size_t fd_count, int flags);

/* A sentence for an error of unix_listen(). */
const char *unix_listen_advice(int err);

#endif
