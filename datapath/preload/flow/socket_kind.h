/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of sockets that ktsnd sends for. Any thread.
 */
#ifndef KTSN_PRELOAD_SOCKET_KIND_H
#define KTSN_PRELOAD_SOCKET_KIND_H

#include <stdbool.h>
#include <stdint.h>

struct socket_kind {
	uint16_t domain; /* AF_INET, AF_INET6 or AF_PACKET */
	bool raw;        /* SOCK_RAW of AF_PACKET: each message begins with its Ethernet header */
};

/* Reads the kind from the kernel. False when ktsnd does not send for such a socket. */
bool socket_kind_read(int fd, struct socket_kind *kind);

/* The kernel's number of the socket, the same for all its descriptors in all processes; 0: none. */
uint64_t socket_cookie(int fd);

/* Whether the socket has a local port, or needs none. */
bool socket_is_bound(int fd);

#endif
