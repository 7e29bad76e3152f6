/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The epoll set to which a descriptor was added last, and the event. A socket may ask for SO_TXTIME only
 * after that. Recorded of every descriptor, because the kind of each would have to be asked of the kernel.
 *
 * A record may be out of date: descriptors are closed, and sets. The reader checks that the descriptor is
 * still in the set. Any thread, also in signal handlers; no lock.
 */
#ifndef KTSN_PRELOAD_EPOLL_RECORD_H
#define KTSN_PRELOAD_EPOLL_RECORD_H

#include <stdbool.h>
#include <sys/epoll.h>

void epoll_record_put(int epoll_fd, int fd, const struct epoll_event *event);

/* False when the descriptor was never added to a set. */
bool epoll_record_get(int fd, int *epoll_fd, struct epoll_event *event);

#endif
