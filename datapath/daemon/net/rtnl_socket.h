/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The netlink sockets of rtnl.h, for namespaces where others may forge messages of the kernel. rtnl.c has the
 * requests and parses the answers.
 *
 * Control thread. Only messages of the kernel count. A request takes 200 ms at most, and a socket that failed
 * is opened again in its namespace.
 */
#ifndef KTSN_DAEMON_RTNL_SOCKET_H
#define KTSN_DAEMON_RTNL_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct nlmsghdr;
struct rtnl;

/* Opens a socket in the calling thread's namespace. 0 or -errno. */
int rtnl_open(struct rtnl **rtnl);
/* Opens a socket that receives changes of neighbours, forwarding entries, links, addresses and groups, for
 * rtnl_monitor_read(); with `routes` also of IPv4 routes. 0 or -errno. */
int rtnl_monitor_open(struct rtnl **rtnl, bool routes);
/* NULL is harmless. */
void rtnl_close(struct rtnl *rtnl);
int rtnl_fd(const struct rtnl *rtnl);

/* The most bytes of a request or an answer. */
enum { RTNL_BUFFER_BYTES = 16384 };

/* Begins a request in `buffer`, of RTNL_BUFFER_BYTES. */
struct nlmsghdr *rtnl_request(struct rtnl *rtnl, char *buffer, uint16_t type, uint16_t flags);
/* Sends a request and calls `parse` with each message of its answer. 0 or -errno; -ETIMEDOUT when the answer
 * does not come in time. */
int rtnl_talk(struct rtnl *rtnl, struct nlmsghdr *header,
	      int (*parse)(const struct nlmsghdr *header, void *result), void *result);
/* Receives one message of the kernel. Returns its bytes, or -errno: -EAGAIN when there is none, -ENOMSG when
 * another sender's was discarded. */
ssize_t rtnl_receive(const struct rtnl *rtnl, char *buffer, size_t capacity_bytes);

#endif
