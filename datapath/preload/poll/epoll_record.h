/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records the epoll set to which a descriptor was last added, and the event, because a socket may get
 * SO_TXTIME later. All descriptors are recorded: reading the kind of each would cost a system call.
 *
 * A record may be out of date, because descriptors and sets are closed. The reader checks that the descriptor
 * is still in the set. Callable from any thread, also in signal handlers, without a lock.
 */
#ifndef KTSN_PRELOAD_EPOLL_RECORD_H
#define KTSN_PRELOAD_EPOLL_RECORD_H

#include <stdbool.h>
#include <sys/epoll.h>

/* epoll_has returns whether a descriptor is in a set: then it cannot be added again. */
bool epoll_has(int epoll_fd, int fd);

void epoll_record_put(int epoll_fd, int fd, const struct epoll_event *event);

/* epoll_record_get returns false when the descriptor was never added to a set. */
bool epoll_record_get(int fd, int *epoll_fd, struct epoll_event *event);

#endif
