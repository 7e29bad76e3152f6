/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving from a socket with a receive ring: datagrams of the ring, and those of the kernel's queue beside
 * it. Any thread, also in signal handlers.
 */
#ifndef KTSN_PRELOAD_INBOX_READ_H
#define KTSN_PRELOAD_INBOX_READ_H

#include "inbox.h"

#include <sys/socket.h>

/* poll or epoll said EPOLLERR of some descriptor: the next call for a socket asks it for its error. */
void inbox_error_reported(void);

/* As recvmsg(), without MSG_ERRQUEUE: bytes or -errno. -ENOTSOCK, and no inbox any more: the descriptor was
 * closed unseen, and is no socket now. */
ssize_t inbox_receive(struct inbox *inbox, int fd, struct msghdr *message, int flags);

/* The bytes of the oldest datagram of the ring; -EAGAIN when there is none. */
int inbox_next_bytes(const struct inbox *inbox);

#endif
