/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests receive rings from ktsnd and gives them back. Callable from any thread.
 */
#ifndef KTSN_PRELOAD_INBOX_OPEN_H
#define KTSN_PRELOAD_INBOX_OPEN_H

#include "app_protocol.h"
#include "inbox_table.h"

/* inbox_of returns the acquired inbox of a descriptor that is to be read or waited for. It is created if the
 * socket is bound and ktsnd offers a ring. NULL: the kernel serves the descriptor. errno stays. */
struct inbox *inbox_of(int fd);

/* inbox_leave makes the kernel serve the socket: the ring gets no more datagrams. Datagrams in the ring
 * are read first. */
void inbox_leave(struct inbox *inbox, int fd, enum ktsn_app_receive_close why);

/* inboxes_leave does so for all sockets of the process. */
void inboxes_leave(enum ktsn_app_receive_close why);

/* inbox_fd_shared makes the kernel serve the socket, also if it has no ring yet, because the descriptor is
 * passed to another process, which may have no libktsn. Descriptors of other files are ignored. */
void inbox_fd_shared(int fd);

/* inbox_renew is called when a datagram arrived through the kernel. If the ktsnd that gave the ring has a
 * successor, or this is a child of the process that requested it, the next call requests a ring again. */
void inbox_renew(struct inbox *inbox);

/* inbox_fd_gone handles a descriptor that is about to be closed. With the last one the ring ends. */
void inbox_fd_gone(int fd);

/* inbox_fd_lost handles a descriptor that was closed by a system call, and is another file now. */
void inbox_fd_lost(struct inbox *inbox, int fd);

/* inbox_fd_copied handles another descriptor of the same socket. */
void inbox_fd_copied(int from, int to);

#endif
