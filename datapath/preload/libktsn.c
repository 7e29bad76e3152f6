/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libktsn.so: the functions it stands in front of. First stop of a packet's way.
 *
 * A socket becomes libktsn's when it asks for SO_TXTIME while ktsnd answers; from then on its datagrams
 * that carry SCM_TXTIME go into the ring, and all else goes to the kernel untouched. Without ktsnd, and
 * for every other socket, each function here is the next one plus two loads. No thread, no output, no
 * signal handler.
 */
#include "flow_table.h"
#include "next.h"
#include "registration.h"
#include "send.h"
#include "session.h"

#include <linux/net_tstamp.h>
#include <string.h>
#include <time.h>

#ifndef SO_TXTIME
#define SO_TXTIME 61
#endif

#define EXPORT __attribute__((visibility("default")))

static long errno_return(long result)
{
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}

static bool is_ipv4_udp(int fd)
{
	int domain = 0, type = 0, protocol = 0;
	socklen_t bytes = sizeof(int);

	return kernel_call(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 &&
	       kernel_call(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 &&
	       kernel_call(SYS_getsockopt, fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &bytes) == 0 &&
	       domain == AF_INET && type == SOCK_DGRAM && protocol == IPPROTO_UDP;
}

static int clock_of(int clockid, enum ktsn_clock *clock)
{
	switch (clockid) {
	case CLOCK_REALTIME:
		*clock = KTSN_CLOCK_REALTIME;
		return 0;
	case CLOCK_MONOTONIC:
		*clock = KTSN_CLOCK_MONOTONIC;
		return 0;
	case CLOCK_TAI:
		*clock = KTSN_CLOCK_TAI;
		return 0;
	default:
		return -EINVAL;
	}
}

/* What the kernel would check before the privilege (net/core/sock.c); other refusals stand. */
static int txtime_read(const void *value, socklen_t bytes, struct sock_txtime *txtime, enum ktsn_clock *clock)
{
	if (bytes != sizeof(*txtime) || !value)
		return -EINVAL;
	memcpy(txtime, value, sizeof(*txtime));
	if (txtime->flags & ~(uint32_t)SOF_TXTIME_FLAGS_MASK)
		return -EINVAL;
	return clock_of(txtime->clockid, clock);
}

static void flow_forget(int fd)
{
	struct flow *flow = flow_remove(fd);

	if (!flow)
		return;
	flow_unregister(flow);
	flow_release(flow);
}

/*
 * The kernel is asked first; where it lacks SO_TXTIME, or wants a privilege for this clock, ktsnd makes
 * up for it. Returns what the application is told: 0 or -errno.
 */
static int txtime_set(int fd, const void *value, socklen_t bytes)
{
	int kernel_err = next_setsockopt(fd, SOL_SOCKET, SO_TXTIME, value, bytes) ? -errno : 0;
	struct session *session;
	struct sock_txtime txtime;
	enum ktsn_clock clock;
	struct flow *flow;

	if (kernel_err && kernel_err != -EPERM && kernel_err != -ENOPROTOOPT)
		return kernel_err;
	if (txtime_read(value, bytes, &txtime, &clock) || !is_ipv4_udp(fd) || session_get(&session))
		return kernel_err;
	flow_forget(fd); /* one that asks again may ask for another clock */
	flow = flow_enter(fd);
	if (!flow)
		return kernel_err;
	flow->txtime_clockid = txtime.clockid;
	flow->txtime_flags = txtime.flags;
	flow->clock = clock;
	flow->kernel_knows = kernel_err == 0;
	/* Bound or connected before it asked for SO_TXTIME: register now, not at the first send. */
	if (socket_is_bound(fd))
		flow_refresh(flow, fd);
	flow_release(flow);
	return 0;
}

EXPORT int socket(int domain, int type, int protocol)
{
	int fd = next_socket(domain, type, protocol);

	/* A descriptor that was closed behind our back (close_range, dup2) comes back as another socket. */
	if (fd >= 0)
		flow_forget(fd);
	return fd;
}

EXPORT int setsockopt(int fd, int level, int option, const void *value, socklen_t bytes)
{
	if (level == SOL_SOCKET && option == SO_TXTIME)
		return (int)errno_return(txtime_set(fd, value, bytes));
	return next_setsockopt(fd, level, option, value, bytes);
}

static void txtime_get(const struct flow *flow, void *value, socklen_t *bytes)
{
	struct sock_txtime txtime = {.clockid = flow->txtime_clockid, .flags = flow->txtime_flags};

	/* As the kernel does: cut to the room there is. */
	if (*bytes > sizeof(txtime))
		*bytes = sizeof(txtime);
	memcpy(value, &txtime, *bytes);
}

EXPORT int getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
	struct flow *flow = NULL;
	bool ours;

	if (level == SOL_SOCKET && option == SO_TXTIME)
		flow = flow_acquire(fd);
	if (!flow)
		return next_getsockopt(fd, level, option, value, bytes);
	ours = !flow->kernel_knows && value && bytes;
	if (ours)
		txtime_get(flow, value, bytes);
	flow_release(flow);
	return ours ? 0 : next_getsockopt(fd, level, option, value, bytes);
}

/* After bind or connect the socket's addresses have changed, and with them where its messages go. */
static void addresses_changed(int fd)
{
	struct flow *flow = flow_acquire(fd);

	if (!flow)
		return;
	flow_refresh(flow, fd);
	flow_release(flow);
}

EXPORT int bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
	int result = next_bind(fd, address, bytes);

	if (result == 0)
		addresses_changed(fd);
	return result;
}

EXPORT int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
	int result = next_connect(fd, address, bytes);

	if (result == 0)
		addresses_changed(fd);
	return result;
}

EXPORT int close(int fd)
{
	if (session_owns_fd(fd)) {
		errno = EBADF;
		return -1;
	}
	flow_forget(fd);
	return next_close(fd);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct flow *flow = flow_acquire(fd);
	long sent = SEND_NOT_TIMED;

	if (flow) {
		sent = send_timed(flow, fd, message, flags);
		flow_release(flow);
	}
	return sent == SEND_NOT_TIMED ? next_sendmsg(fd, message, flags) : errno_return(sent);
}

/* One by one, as the kernel does: an error counts only if it is the first's. */
static int sendmmsg_each(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	unsigned int sent;

	for (sent = 0; sent < count; sent++) {
		ssize_t bytes = sendmsg(fd, &messages[sent].msg_hdr, flags);

		if (bytes < 0)
			break;
		messages[sent].msg_len = (unsigned int)bytes;
	}
	return sent || !count ? (int)sent : -1;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	struct flow *flow = flow_acquire(fd);

	if (!flow)
		return next_sendmmsg(fd, messages, count, flags);
	flow_release(flow);
	return sendmmsg_each(fd, messages, count, flags);
}
