/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Into which epoll set a descriptor was put last, and with what: for a socket that asks for SO_TXTIME only then. Noted of
 * every descriptor, because what it is would have to be asked of the kernel. Any thread, signal handlers too; no lock.
 *
 * What is said here may be out of date: descriptors are closed, and sets. Who asks looks whether it still stands there.
 */
#ifndef KTSN_PRELOAD_EPOLL_MEMORY_H
#define KTSN_PRELOAD_EPOLL_MEMORY_H

#include <stdbool.h>
#include <sys/epoll.h>

void epoll_note(int epoll_fd, int fd, const struct epoll_event *event);

/* False when the descriptor never was put into a set. */
bool epoll_noted(int fd, int *epoll_fd, struct epoll_event *event);

#endif
