/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timed sockets in epoll sets. Copies of the socket's notifiers are added to the set with the application's
 * own data: the error notifier always, the space notifier for EPOLLOUT. So the kernel itself wakes every kind
 * of epoll_wait, and returns what the application put there.
 *
 * Any thread.
 */
#ifndef KTSN_PRELOAD_EPOLL_MEMBERS_H
#define KTSN_PRELOAD_EPOLL_MEMBERS_H

#include "flow.h"

#include <sys/epoll.h>

/* epoll_ctl() of a timed socket. Result and errno as epoll_ctl(). */
int epoll_members_ctl(struct flow *flow, int epoll_fd, int operation, int fd, struct epoll_event *event);

/* The socket asked for SO_TXTIME after it was added to a set: adds its notifiers to the set that
 * epoll_record.h knows. */
void epoll_members_catch_up(struct flow *flow, int fd);

/* A descriptor of the socket is closed: it leaves the sets, and so do the notifiers that came with it. */
void epoll_members_fd_gone(struct flow *flow, int fd);

#endif
