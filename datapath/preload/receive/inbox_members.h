/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets with a receive ring in epoll sets: a copy of the ring's descriptor is in the set, with the
 * application's data, so that the kernel itself wakes each variant of epoll_wait.
 *
 * Callable from any thread.
 */
#ifndef KTSN_PRELOAD_INBOX_MEMBERS_H
#define KTSN_PRELOAD_INBOX_MEMBERS_H

#include "inbox.h"

#include <sys/epoll.h>

/* inbox_members_ctl follows a successful epoll_ctl() of a descriptor of the socket. */
void inbox_members_ctl(struct inbox *inbox, int epoll_fd, int operation, int fd,
		       const struct epoll_event *event);

/* inbox_members_catch_up adds a socket that got its ring after it was added to a set. */
void inbox_members_catch_up(struct inbox *inbox, int fd);

/* inbox_members_fd_gone removes a descriptor of the socket that is closed. */
void inbox_members_fd_gone(struct inbox *inbox, int fd);

/* inbox_members_close closes the copies; inbox_members_forked, in a child, those of the parent, in whose sets
 * they stay. */
void inbox_members_close(struct inbox *inbox);
void inbox_members_forked(struct inbox *inbox);

#endif
