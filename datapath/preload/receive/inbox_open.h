/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a socket gets its receive ring from ktsnd, and gives it back. Any thread.
 */
#ifndef KTSN_PRELOAD_INBOX_OPEN_H
#define KTSN_PRELOAD_INBOX_OPEN_H

#include "app_protocol.h"
#include "inbox_table.h"

/* The inbox of a descriptor that is to be read or waited for, made if the socket is bound and ktsnd offers
 * one; acquired. NULL: the kernel serves the descriptor. errno stays. */
struct inbox *inbox_of(int fd);

/* The socket becomes the kernel's: no more datagrams come into the ring. What is in it is read first. */
void inbox_leave(struct inbox *inbox, int fd, enum ktsn_app_receive_close why);

/* Another process is about to get the descriptor, and may have no libktsn: the socket becomes the kernel's
 * for both, also if it has no ring yet. Of a descriptor that is no UDP socket nothing changes. */
void inbox_fd_shared(int fd);

/* A datagram came by the kernel's path: perhaps the ktsnd that gave the ring has a successor, or this is a
 * child of the process that asked for it. Then the next call asks for a ring anew. */
void inbox_renew(struct inbox *inbox);

/* The descriptor is about to be closed; with the last one the ring ends. */
void inbox_fd_gone(int fd);

/* The descriptor was closed unseen, and is another file now: the inbox is not its own. */
void inbox_fd_lost(struct inbox *inbox, int fd);

/* Another descriptor of the same socket. */
void inbox_fd_copied(int from, int to);

#endif
