/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timed sockets in epoll sets. Copies of the socket's notifiers are added to the set with the application's
 * data: the error notifier always, the space notifier for EPOLLOUT. So the kernel itself wakes each variant
 * of epoll_wait, and returns the application's data.
 *
 * Callable from any thread.
 */
#ifndef KTSN_PRELOAD_EPOLL_MEMBERS_H
#define KTSN_PRELOAD_EPOLL_MEMBERS_H

#include "flow.h"

#include <sys/epoll.h>

/* epoll_members_ctl implements epoll_ctl() of a timed socket. Result and errno as epoll_ctl(). */
int epoll_members_ctl(struct flow *flow, int epoll_fd, int operation, int fd, struct epoll_event *event);

/* epoll_members_catch_up adds the notifiers of a socket that got SO_TXTIME after it was added to a set
 * (epoll_record.h). */
void epoll_members_catch_up(struct flow *flow, int fd);

/* epoll_members_fd_gone removes the notifiers of a descriptor that is closed. */
void epoll_members_fd_gone(struct flow *flow, int fd);

#endif
