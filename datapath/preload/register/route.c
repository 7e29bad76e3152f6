/* SPDX-License-Identifier: Apache-2.0 */
#include "route.h"

#include "connect.h"
#include "daemon_timeout.h"
#include "destination_request.h"
#include "epoll_members.h"
#include "liveness.h"
#include "refresh.h"
#include "registration.h"
#include "socket_options.h"

#include <linux/net_tstamp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ktsnd's answers for a socket that it does not know or does not serve. */
static bool unknown_to_ktsnd(int err)
{
	return err == -ENOENT || err == -EINVAL || err == -EOPNOTSUPP;
}

/* The process that requested SO_TXTIME may have ended before ktsnd answered; the kernel may know the
 * socket. With CLOCK_REALTIME and no flags the kernel's answer equals that of a socket that never requested
 * it. */
static bool kernel_knows_socket(struct flow *flow, int fd)
{
	struct sock_txtime txtime = {0};
	socklen_t bytes = sizeof(txtime);
	enum ktsn_clock clock;

	if (kernel_call(SYS_getsockopt, fd, SOL_SOCKET, SO_TXTIME, &txtime, &bytes) < 0 ||
	    (txtime.clockid == CLOCK_REALTIME && !txtime.flags) || flow_clock_of(txtime.clockid, &clock))
		return false;
	lock_take(&flow->lock);
	flow->kernel_knows = true;
	flow->clock = clock;
	flow->txtime_clockid = txtime.clockid;
	flow->txtime_flags = txtime.flags;
	lock_give(&flow->lock);
	return true;
}

/* 0, SEND_NOT_TIMED or -errno. */
static long adoption_ask(struct session *session, struct flow *flow, int fd)
{
	int err = flow_adopt(session, flow, fd);

	if (unknown_to_ktsnd(err) && !kernel_knows_socket(flow, fd)) {
		atomic_store_explicit(&flow->left_to_kernel, true, memory_order_relaxed);
		return SEND_NOT_TIMED;
	}
	if (err && !unknown_to_ktsnd(err))
		return err;
	atomic_store_explicit(&flow->adoption_pending, false, memory_order_release);
	epoll_members_catch_up(flow, fd);
	return 0;
}

static long route_ask(struct flow *flow, int fd, const struct ktsn_app_key *key, struct route *route)
{
	long err = 0;

	if (!route->session)
		err = session_get(&route->session);
	if (!err && atomic_load_explicit(&flow->adoption_pending, memory_order_acquire))
		err = adoption_ask(route->session, flow, fd);
	if (!err)
		err = flow_register(route->session, flow, fd);
	return err ? err : flow_destination(route->session, flow, key, &route->destination);
}

static bool unanswered(long err)
{
	return err == -ETIMEDOUT || err == -ENOTCONN;
}

/*
 * ktsnd does not answer, or is away. A call that may block waits. A call that may not, or whose time is over,
 * gets ENETDOWN: EAGAIN would promise that poll() reports when to send again.
 */
static long route_await(struct flow *flow, int fd, const struct ktsn_app_key *key, int flags,
			struct route *route)
{
	int64_t deadline_ms = daemon_deadline_ms(fd, flags);
	long err;
	int waited;

	do {
		/* session_get() checks that ktsnd lives, and looks for its successor. */
		route->session = NULL;
		err = route_ask(flow, fd, key, route);
		waited = unanswered(err) ? daemon_wait(deadline_ms) : 0;
	} while (unanswered(err) && !waited);
	if (!unanswered(err))
		return err;
	if (waited == -EINTR)
		return -EINTR;
	session_unanswered_count();
	return -ENETDOWN;
}

/* An endpoint may have been added to the socket's namespace since. */
static long endpoint_ask_again(struct flow *flow, int fd, const struct ktsn_app_key *key, struct route *route)
{
	struct route requested = {.session = NULL};
	long err = flow_may_ask_again(flow) ? route_ask(flow, fd, key, &requested) : FLOW_WITHOUT_ENDPOINT;

	if (!err)
		*route = requested;
	/* Without an answer, the last one stands. */
	return unanswered(err) || err == -ENETDOWN ? FLOW_WITHOUT_ENDPOINT : err;
}

/* The pod's annotation kubernetsn.io/off-network. */
static bool may_leave_off_network(void)
{
	const char *value = getenv("KTSN_OFF_NETWORK");

	return value && strcmp(value, "pass") == 0;
}

/* The message would leave at once, by an interface that is not of a network: too early. The routes may lead
 * to a network again since ktsnd was asked. */
static long off_network_refuse(struct flow *flow, int fd, const struct ktsn_app_key *key, struct route *route)
{
	bool ask = flow_may_ask_again(flow);
	long err = 0;

	if (ask && key)
		err = flow_destination_again(route->session, flow, key, &route->destination);
	else if (ask && flow_register_again(route->session, flow, fd) == 0)
		err = route_ask(flow, fd, key, route);
	if (err ? !unanswered(err) : !route->destination.off_network)
		return err;
	atomic_fetch_add_explicit(&route->session->ring.header->off_network, 1, memory_order_relaxed);
	return -ENETUNREACH;
}

long route_find(struct flow *flow, int fd, const struct ktsn_app_key *key, int flags, struct route *route)
{
	long err;

	if (route->session && atomic_load_explicit(&flow->without_endpoint, memory_order_relaxed)) {
		err = endpoint_ask_again(flow, fd, key, route);
	} else {
		err = route_ask(flow, fd, key, route);
		if (unanswered(err))
			err = route_await(flow, fd, key, flags, route);
	}
	if (!err && route->destination.off_network && !may_leave_off_network())
		err = off_network_refuse(flow, fd, key, route);
	if (err != FLOW_WITHOUT_ENDPOINT)
		return err;
	/* All routes of such a namespace, including loopback, belong to the kernel. */
	route->destination = (struct destination){.route = KTSN_APP_ROUTE_KERNEL};
	return 0;
}
