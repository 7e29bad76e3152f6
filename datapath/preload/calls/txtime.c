/* SPDX-License-Identifier: Apache-2.0 */
#include "txtime.h"

#include "daemon_timeout.h"
#include "descriptors.h"
#include "epoll_members.h"
#include "flow_end.h"
#include "liveness.h"
#include "next.h"
#include "process_owner.h"
#include "refresh.h"
#include "socket_options.h"

#include <errno.h>
#include <linux/net_tstamp.h>
#include <string.h>

/* The checks that the kernel makes before it checks the privilege (net/core/sock.c). */
static int txtime_read(const void *value, socklen_t bytes, struct sock_txtime *txtime, enum ktsn_clock *clock)
{
	if (bytes != sizeof(*txtime) || !value)
		return -EINVAL;
	memcpy(txtime, value, sizeof(*txtime));
	if (txtime->flags & ~(uint32_t)SOF_TXTIME_FLAGS_MASK)
		return -EINVAL;
	return flow_clock_of(txtime->clockid, clock);
}

/* Requesting the same again changes nothing, and drops no pending message. */
static bool asked_before(int fd, const struct sock_txtime *txtime)
{
	struct flow *flow = flow_acquire(fd);
	bool same;

	if (!flow)
		return false;
	same = !flow->left_to_kernel && !flow->adoption_pending && !flow->refused &&
	       flow->txtime_clockid == txtime->clockid && flow->txtime_flags == txtime->flags;
	flow_put(flow);
	return same;
}

/* Waits for ktsnd as a blocking call: the socket may be passed to another process before it sends, and ktsnd
 * should know it by then. */
static int session_await(int fd, struct session **session)
{
	int64_t deadline_ms = daemon_deadline_ms(fd, 0);
	int err;

	do
		err = session_get(session);
	while (err == -ETIMEDOUT && daemon_wait(deadline_ms) == 0);
	return err;
}

void flow_refresh_await(struct flow *flow, int fd)
{
	int64_t deadline_ms = daemon_deadline_ms(fd, 0);

	while (flow_refresh(flow, fd) == -ETIMEDOUT && daemon_wait(deadline_ms) == 0)
		;
}

/* session_err: the outcome of session_get(), which decides about the socket. */
static struct flow *flow_make(const struct sock_txtime *txtime, enum ktsn_clock clock,
			      struct socket_kind kind, int session_err)
{
	struct flow *flow = flow_create();

	if (!flow)
		return NULL;
	flow->left_to_kernel = session_err == -ENOTCONN;
	flow->refused = session_err && session_err != -ENOTCONN && session_err != -ETIMEDOUT;
	flow->txtime_clockid = txtime->clockid;
	flow->txtime_flags = txtime->flags;
	flow->clock = clock;
	flow->kind = kind;
	return flow;
}

/* The last call decides: another thread may have sent meanwhile, or requested another clock. -EEXIST: the
 * flow belongs to the parent, in a child of vfork. */
static int flow_replace(struct flow *flow, int fd)
{
	int err;

	while ((err = flow_share(flow, fd)) == -EEXIST && process_is_owner())
		descriptor_gone(fd);
	return err;
}

/*
 * From here on the socket's timed messages go into the ring, or nowhere. 0 also when ktsnd has not answered:
 * the first message waits for the answer. The reason of ktsnd's refusal is returned to the application.
 */
static int flow_enter(struct flow *flow, int fd, int session_err)
{
	int err = flow_replace(flow, fd);

	if (err)
		return err;
	/* A socket that was bound or connected before is registered now, not at the first send. */
	if (!session_err && socket_is_bound(fd))
		flow_refresh_await(flow, fd);
	epoll_members_catch_up(flow, fd);
	return flow->refused ? session_err : 0;
}

/*
 * The kernel is asked first. Where it lacks SO_TXTIME, or requires a privilege for this clock, ktsnd provides
 * it. In a process without ktsnd the kernel's answer stands.
 */
int txtime_set(int fd, const void *value, socklen_t bytes)
{
	int kernel_err = next_setsockopt(fd, SOL_SOCKET, SO_TXTIME, value, bytes) ? -errno : 0;
	struct session *session;
	struct sock_txtime txtime;
	enum ktsn_clock clock;
	struct socket_kind kind;
	struct flow *flow;
	int session_err, err;

	if (kernel_err && kernel_err != -EPERM && kernel_err != -ENOPROTOOPT)
		return kernel_err;
	if (txtime_read(value, bytes, &txtime, &clock) || !socket_kind_read(fd, &kind))
		return kernel_err;
	if (asked_before(fd, &txtime))
		return 0;
	descriptor_gone(fd); /* the application may ask again, for another clock */
	session_err = session_await(fd, &session);
	flow = flow_make(&txtime, clock, kind, session_err);
	if (!flow)
		return session_err == -ENOTCONN ? kernel_err : -ENOMEM;
	flow->kernel_knows = kernel_err == 0;
	flow->cookie = socket_cookie(fd);
	datagram_options_read(&flow->options, fd);
	if (flow->left_to_kernel)
		(void)flow_replace(flow, fd);
	err = flow->left_to_kernel ? kernel_err : flow_enter(flow, fd, session_err);
	flow_put(flow);
	return err;
}

bool txtime_get(int fd, void *value, socklen_t *bytes)
{
	struct flow *flow = flow_acquire(fd);
	struct sock_txtime txtime;
	bool ours;

	if (!flow)
		return false;
	ours = !flow->left_to_kernel && !flow->adoption_pending && !flow->kernel_knows && value && bytes;
	txtime = (struct sock_txtime){.clockid = flow->txtime_clockid, .flags = flow->txtime_flags};
	flow_put(flow);
	if (!ours)
		return false;
	/* Cut to the available room, as in the kernel. */
	if (*bytes > sizeof(txtime))
		*bytes = sizeof(txtime);
	memcpy(value, &txtime, *bytes);
	return true;
}
