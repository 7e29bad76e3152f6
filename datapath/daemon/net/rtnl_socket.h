/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The netlink sockets of rtnl.h: how ktsnd talks to the kernel in a namespace where others may forge what the
 * kernel says. What is asked, and what the answers mean, is in rtnl.c.
 *
 * Control thread. Only what the kernel itself sends counts; a question takes 200 ms at most, and a socket
 * that failed is opened anew in its namespace.
 */
#ifndef KTSN_DAEMON_RTNL_SOCKET_H
#define KTSN_DAEMON_RTNL_SOCKET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct nlmsghdr;
struct rtnl;

/* Opens a socket in the calling thread's namespace. 0 or -errno. */
int rtnl_open(struct rtnl **rtnl);
/* One that is told of changes of neighbours, links, addresses and groups, and does not block
 * (rtnl_monitor_read). 0 or -errno. */
int rtnl_monitor_open(struct rtnl **rtnl);
/* NULL is harmless. */
void rtnl_close(struct rtnl *rtnl);
int rtnl_fd(const struct rtnl *rtnl);

/* Of a request or an answer. */
enum { RTNL_BUFFER_BYTES = 16384 };

/* Begins a request in `buffer`, of RTNL_BUFFER_BYTES. */
struct nlmsghdr *rtnl_request(struct rtnl *rtnl, char *buffer, uint16_t type, uint16_t flags);
/* Sends a request and hands its answer to `parse`, to the end of a dump. 0 or -errno; -ETIMEDOUT when there
 * was none in time. */
int rtnl_talk(struct rtnl *rtnl, struct nlmsghdr *header,
	      int (*parse)(const struct nlmsghdr *header, void *result), void *result);
/* One message that the kernel sent. Its bytes, or -errno: -EAGAIN when there is none, -ENOMSG when it was
 * another's. */
ssize_t rtnl_receive(const struct rtnl *rtnl, char *buffer, size_t capacity_bytes);

#endif
