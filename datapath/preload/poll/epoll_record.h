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

/* epoll_unseen returns whether the process has an io_uring. It may then change epoll sets without calling
 * epoll_ctl(), as libuv does, and sockets may be in sets that are not recorded. */
bool epoll_unseen(void);

/* epoll_unseen_ordered does so after everything that the thread did before: either it sees the io_uring of
 * another thread, or that thread sees what this one has stored once it has called epoll_unseen_set(). */
bool epoll_unseen_ordered(void);
void epoll_unseen_set(void);

#endif
