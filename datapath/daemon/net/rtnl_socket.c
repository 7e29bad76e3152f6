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

/* The kernel answers within the call that sends the request, or that reads the rest of a dump. */
enum { TIMEOUT_MS = 200 };

/*
 * A program with CAP_NET_ADMIN in the namespace can send to any netlink socket there. A socket that is
 * connected to the kernel gets only its messages (netlink_getsockbyportid()), and those to groups:
 * rtnl_receive() checks the sender of these.
 */
static int connect_to_kernel(const struct mnl_socket *socket)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	return connect(mnl_socket_get_fd(socket), (const struct sockaddr *)&kernel, sizeof(kernel)) ? -errno
												    : 0;
}

/* Discards messages that others sent before the socket was connected, and the error if they filled it. */
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
	err = mnl_socket_bind(socket, groups, MNL_SOCKET_AUTOPID) ? -errno : connect_to_kernel(socket);
	if (err) {
		mnl_socket_close(socket);
		return err;
	}
	/* A monitor must see that it missed a change. */
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

/* Replaces the socket by a new one in the same namespace. After a failure the old socket stays. */
static void socket_reopen(struct rtnl *rtnl)
{
	int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	int target = ioctl(mnl_socket_get_fd(rtnl->socket), SIOCGSKNS);
	struct mnl_socket *opened;

	if (own >= 0 && target >= 0 && setns(target, CLONE_NEWNET) == 0) {
		if (socket_open(&opened, 0) == 0) {
			mnl_socket_close(rtnl->socket);
			/* NOLINTNEXTLINE(clang-analyzer-core.*): set where socket_open() gives 0 */
			rtnl->socket = opened;
			rtnl->port_id = mnl_socket_get_portid(opened);
		}
		/* As in namespace.c: ktsnd cannot continue. */
		if (setns(own, CLONE_NEWNET))
			abort();
	}
	if (own >= 0)
		close(own);
	if (target >= 0)
		close(target);
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

static int readable_wait(const struct rtnl *rtnl, int64_t until_ms)
{
	struct pollfd readable = {.fd = mnl_socket_get_fd(rtnl->socket), .events = POLLIN};
	int64_t left_ms = until_ms - clock_monotonic_ms();

	if (left_ms <= 0)
		return -ETIMEDOUT;
	return poll(&readable, 1, (int)left_ms) < 0 && errno != EINTR ? -errno : 0;
}

/* Receives the next message of the kernel, and waits for it until that time on CLOCK_MONOTONIC. */
static ssize_t message_wait(const struct rtnl *rtnl, char *buffer, size_t capacity_bytes, int64_t until_ms)
{
	for (;;) {
		ssize_t bytes = rtnl_receive(rtnl, buffer, capacity_bytes);
		int err;

		if (bytes != -EAGAIN && bytes != -ENOMSG && bytes != -EINTR)
			return bytes;
		err = bytes == -ENOMSG && clock_monotonic_ms() < until_ms ? 0 : readable_wait(rtnl, until_ms);
		if (err)
			return err;
	}
}

int rtnl_open(struct rtnl **rtnl)
{
	return open_groups(rtnl, 0);
}

int rtnl_monitor_open(struct rtnl **rtnl, bool routes)
{
	/* Newer groups have no bit constant. */
	const uint32_t bridge_groups = UINT32_C(1) << (RTNLGRP_MDB - 1);

	return open_groups(rtnl, RTMGRP_NEIGH | RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
					 (routes ? RTMGRP_IPV4_ROUTE : 0) | bridge_groups);
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

/* Receives a part of the answer to the last request. Skips the rest of an interrupted dump before it. */
static ssize_t answer_receive(const struct rtnl *rtnl, char *buffer, size_t capacity_bytes, int64_t until_ms)
{
	struct nlmsghdr first;
	ssize_t bytes;

	do {
		bytes = message_wait(rtnl, buffer, capacity_bytes, until_ms);
		if (bytes < (ssize_t)sizeof(first))
			return bytes;
		memcpy(&first, buffer, sizeof(first));
	} while (first.nlmsg_seq != rtnl->sequence);
	return bytes;
}

/* The kernel builds a dump in the call that reads it, so its work counts as this thread's; time in which the
 * thread has no processor does not count. */
static int64_t thread_cpu_ms(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID) / 1000000;
}

static int exchange(struct rtnl *rtnl, struct nlmsghdr *header, mnl_cb_t parse, void *result)
{
	int64_t until_ms = clock_monotonic_ms() + TIMEOUT_MS, until_cpu_ms = thread_cpu_ms() + TIMEOUT_MS;
	char buffer[RTNL_BUFFER_BYTES];
	int status = MNL_CB_OK;

	if (mnl_socket_sendto(rtnl->socket, header, header->nlmsg_len) < 0)
		return -errno;
	do {
		ssize_t bytes = answer_receive(rtnl, buffer, sizeof(buffer), until_ms);

		if (bytes < 0)
			return (int)bytes;
		/* A program in the namespace can add any number of addresses. */
		if (thread_cpu_ms() > until_cpu_ms)
			return -ETIMEDOUT;
		status = mnl_cb_run(buffer, (size_t)bytes, rtnl->sequence, rtnl->port_id, parse, result);
	} while (status == MNL_CB_OK && (header->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP);
	return status < 0 ? -errno : 0;
}

int rtnl_talk(struct rtnl *rtnl, struct nlmsghdr *header, mnl_cb_t parse, void *result)
{
	int err = exchange(rtnl, header, parse, result);

	/* These errors concern the socket, not the request. A late answer must not reach the next request. */
	if (err == -ETIMEDOUT || err == -ENOBUFS || err == -ENOSPC)
		socket_reopen(rtnl);
	return err;
}
