/* SPDX-License-Identifier: Apache-2.0 */
#include "rtnl_socket.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct rtnl {
	struct mnl_socket *socket;
	uint32_t port_id;
	uint32_t sequence;
};

/* The kernel answers in the call that asks, or in the one that reads on. */
enum { TIMEOUT_MS = 200 };

/*
 * A program of the namespace that has CAP_NET_ADMIN there can send to any netlink socket in it. To one that
 * is connected to the kernel it cannot (netlink_getsockbyportid() refuses), but to groups still: so senders
 * are looked at as well.
 */
static int kernel_only(const struct mnl_socket *socket)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	return connect(mnl_socket_get_fd(socket), (const struct sockaddr *)&kernel, sizeof(kernel)) ? -errno
												    : 0;
}

/* What others sent before it was connected, and that there was no room for more of it. */
static void socket_drain(const struct mnl_socket *socket)
{
	char byte;

	while (recv(mnl_socket_get_fd(socket), &byte, sizeof(byte), MSG_DONTWAIT) >= 0 || errno == ENOBUFS)
		;
}

static int socket_open(struct mnl_socket **opened, uint32_t groups)
{
	struct mnl_socket *socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	int err;

	if (!socket)
		return -errno;
	err = mnl_socket_bind(socket, groups, MNL_SOCKET_AUTOPID) ? -errno : kernel_only(socket);
	if (err) {
		mnl_socket_close(socket);
		return err;
	}
	/* Groups go on: a monitor tells itself that it missed something. */
	if (!groups)
		socket_drain(socket);
	*opened = socket;
	return 0;
}

static int open_groups(struct rtnl **opened, uint32_t groups)
{
	struct rtnl *rtnl = calloc(1, sizeof(*rtnl));
	int err;

	if (!rtnl)
		return -ENOMEM;
	err = socket_open(&rtnl->socket, groups);
	if (err) {
		free(rtnl);
		return err;
	}
	rtnl->port_id = mnl_socket_get_portid(rtnl->socket);
	rtnl->sequence = (uint32_t)time(NULL);
	*opened = rtnl;
	return 0;
}

/* In the namespace of the socket before, which it takes the place of; if that cannot be, it stays. */
static void socket_renew(struct rtnl *rtnl)
{
	int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	int there = ioctl(mnl_socket_get_fd(rtnl->socket), SIOCGSKNS);
	struct mnl_socket *fresh;

	if (own >= 0 && there >= 0 && setns(there, CLONE_NEWNET) == 0) {
		if (socket_open(&fresh, 0) == 0) {
			mnl_socket_close(rtnl->socket);
			/* NOLINTNEXTLINE(clang-analyzer-core.*): set where socket_open() gives 0 */
			rtnl->socket = fresh;
			rtnl->port_id = mnl_socket_get_portid(fresh);
		}
		/* As in namespace.c: not survivable. */
		if (setns(own, CLONE_NEWNET))
			abort();
	}
	if (own >= 0)
		close(own);
	if (there >= 0)
		close(there);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): recvmsg() writes to it */
ssize_t rtnl_receive(const struct rtnl *rtnl, char *buffer, size_t capacity_bytes)
{
	struct sockaddr_nl from = {0};
	struct iovec iov = {.iov_base = buffer, .iov_len = capacity_bytes};
	struct msghdr message = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1};
	ssize_t bytes = recvmsg(mnl_socket_get_fd(rtnl->socket), &message, MSG_DONTWAIT);

	if (bytes < 0)
		return -errno;
	if (message.msg_namelen != sizeof(from) || from.nl_pid != 0)
		return -ENOMSG;
	return message.msg_flags & MSG_TRUNC ? -ENOSPC : bytes;
}

static int readable_await(const struct rtnl *rtnl, int64_t until_ms)
{
	struct pollfd readable = {.fd = mnl_socket_get_fd(rtnl->socket), .events = POLLIN};
	int64_t left_ms = until_ms - clock_monotonic_ms();

	if (left_ms <= 0)
		return -ETIMEDOUT;
	return poll(&readable, 1, (int)left_ms) < 0 && errno != EINTR ? -errno : 0;
}

/* The next, which is awaited until then. */
static ssize_t kernel_await(const struct rtnl *rtnl, char *buffer, size_t capacity_bytes, int64_t until_ms)
{
	for (;;) {
		ssize_t bytes = rtnl_receive(rtnl, buffer, capacity_bytes);
		int err;

		if (bytes != -EAGAIN && bytes != -ENOMSG && bytes != -EINTR)
			return bytes;
		err = bytes == -ENOMSG && clock_monotonic_ms() < until_ms ? 0
									  : readable_await(rtnl, until_ms);
		if (err)
			return err;
	}
}

int rtnl_open(struct rtnl **rtnl)
{
	return open_groups(rtnl, 0);
}

int rtnl_monitor_open(struct rtnl **rtnl)
{
	/* The newer groups have a number only. */
	const uint32_t of_bridges = UINT32_C(1) << (RTNLGRP_MDB - 1);

	return open_groups(rtnl,
			   RTMGRP_NEIGH | RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | of_bridges);
}

void rtnl_close(struct rtnl *rtnl)
{
	if (!rtnl)
		return;
	if (rtnl->socket)
		mnl_socket_close(rtnl->socket);
	free(rtnl);
}

int rtnl_fd(const struct rtnl *rtnl)
{
	return mnl_socket_get_fd(rtnl->socket);
}

struct nlmsghdr *rtnl_request(struct rtnl *rtnl, char *buffer, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *header = mnl_nlmsg_put_header(buffer);

	header->nlmsg_type = type;
	header->nlmsg_flags = NLM_F_REQUEST | flags;
	header->nlmsg_seq = ++rtnl->sequence;
	return header;
}

/* Receives from the answer to the last request. What is left of one before, which was not read to its end
 * because a dump was interrupted, is passed over. */
static ssize_t answer_receive(const struct rtnl *rtnl, char *buffer, size_t capacity_bytes, int64_t until_ms)
{
	struct nlmsghdr first;
	ssize_t bytes;

	do {
		bytes = kernel_await(rtnl, buffer, capacity_bytes, until_ms);
		if (bytes < (ssize_t)sizeof(first))
			return bytes;
		memcpy(&first, buffer, sizeof(first));
	} while (first.nlmsg_seq != rtnl->sequence);
	return bytes;
}

/* The kernel works on a dump in the call that reads it: what a busy machine takes of the time does not
 * count. */
static int64_t worked_ms(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID) / 1000000;
}

static int exchange(struct rtnl *rtnl, struct nlmsghdr *header, mnl_cb_t parse, void *result)
{
	int64_t until_ms = clock_monotonic_ms() + TIMEOUT_MS, until_worked_ms = worked_ms() + TIMEOUT_MS;
	char buffer[RTNL_BUFFER_BYTES];
	int status = MNL_CB_OK;

	if (mnl_socket_sendto(rtnl->socket, header, header->nlmsg_len) < 0)
		return -errno;
	do {
		ssize_t bytes = answer_receive(rtnl, buffer, sizeof(buffer), until_ms);

		if (bytes < 0)
			return (int)bytes;
		/* A program of the namespace can give it any number of addresses. */
		if (worked_ms() > until_worked_ms)
			return -ETIMEDOUT;
		status = mnl_cb_run(buffer, (size_t)bytes, rtnl->sequence, rtnl->port_id, parse, result);
	} while (status == MNL_CB_OK && (header->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP);
	return status < 0 ? -errno : 0;
}

int rtnl_talk(struct rtnl *rtnl, struct nlmsghdr *header, mnl_cb_t parse, void *result)
{
	int err = exchange(rtnl, header, parse, result);

	/* The kernel says this of a socket, and not of what was asked. An answer that comes after all is for
	 * nobody. */
	if (err == -ETIMEDOUT || err == -ENOBUFS || err == -ENOSPC)
		socket_renew(rtnl);
	return err;
}
