/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives from a socket with a receive ring: datagrams of the ring, and of the kernel's queue. Callable from
 * any thread, also in signal handlers.
 */
#ifndef KTSN_PRELOAD_INBOX_READ_H
#define KTSN_PRELOAD_INBOX_READ_H

#include "inbox.h"

#include <sys/socket.h>

/* inbox_error_reported is called when poll or epoll returned EPOLLERR for some descriptor: the next call for
 * a socket reads its error. */
void inbox_error_reported(void);

/* inbox_receive implements recvmsg() without MSG_ERRQUEUE: bytes or -errno. -ENOTSOCK, without an inbox from
 * then on: the descriptor was closed by a system call, and is no socket now. */
ssize_t inbox_receive(struct inbox *inbox, int fd, struct msghdr *message, int flags);

/* inbox_next_bytes returns the bytes of the oldest datagram of the ring; -EAGAIN when there is none. */
int inbox_next_bytes(const struct inbox *inbox);

#endif
