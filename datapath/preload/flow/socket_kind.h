/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kinds of sockets that ktsnd supports. Callable from any thread.
 */
#ifndef KTSN_PRELOAD_SOCKET_KIND_H
#define KTSN_PRELOAD_SOCKET_KIND_H

#include <stdbool.h>
#include <stdint.h>

struct socket_kind {
	uint16_t domain; /* AF_INET, AF_INET6 or AF_PACKET */
	bool raw;        /* SOCK_RAW of AF_PACKET: each message begins with its Ethernet header */
};

/* socket_kind_read reads the kind from the kernel. Returns false when ktsnd does not support it. */
bool socket_kind_read(int fd, struct socket_kind *kind);

/* socket_cookie returns the kernel's number of the socket (SO_COOKIE), which is the same for its descriptors
 * in all processes; 0 if there is none. */
uint64_t socket_cookie(int fd);

/* socket_is_bound returns whether the socket has a local port, or needs none. */
bool socket_is_bound(int fd);

#endif
