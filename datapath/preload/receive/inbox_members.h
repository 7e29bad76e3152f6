/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets with a receive ring in epoll sets: a copy of the ring's descriptor is in the set, with the
 * application's own data, so that the kernel itself wakes every kind of epoll_wait.
 *
 * Any thread.
 */
#ifndef KTSN_PRELOAD_INBOX_MEMBERS_H
#define KTSN_PRELOAD_INBOX_MEMBERS_H

#include "inbox.h"

#include <sys/epoll.h>

/* After a successful epoll_ctl() of a descriptor of the socket. */
void inbox_members_ctl(struct inbox *inbox, int epoll_fd, int operation, int fd,
		       const struct epoll_event *event);

/* The socket got its ring after it was put into a set. */
void inbox_members_catch_up(struct inbox *inbox, int fd);

/* A descriptor of the socket is closed. */
void inbox_members_fd_gone(struct inbox *inbox, int fd);

/* Closes the copies; in a child, those of the parent, in whose sets they stay. */
void inbox_members_close(struct inbox *inbox);
void inbox_members_forked(struct inbox *inbox);

#endif
