/* SPDX-License-Identifier: Apache-2.0 */
#include "way.h"

#include "epoll_sets.h"
#include "patience.h"
#include "registration.h"

#include <linux/net_tstamp.h>
#include <time.h>

#ifndef SO_TXTIME
#define SO_TXTIME 61
#endif

/* What ktsnd says of a socket that it does not know, or that is none that it serves. */
static bool nobodys(int err)
{
	return err == -ENOENT || err == -EINVAL || err == -EOPNOTSUPP;
}

/* Who asked may have ended before ktsnd answered, and the kernel know that the socket is timed. (Of CLOCK_REALTIME
 * without flags it says what it says of one that never asked.) */
static bool stranger_known_to_kernel(struct flow *flow, int fd)
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
static long stranger_ask(struct session *session, struct flow *flow, int fd)
{
	int err = flow_adopt(session, flow, fd);

	if (nobodys(err) && !stranger_known_to_kernel(flow, fd)) {
		atomic_store_explicit(&flow->left_to_kernel, true, memory_order_relaxed);
		return SEND_NOT_TIMED;
	}
	if (err && !nobodys(err))
		return err;
	atomic_store_explicit(&flow->stranger, false, memory_order_release);
	epoll_sets_join(flow, fd);
	return 0;
}

/* key: NULL for where the socket is connected. 0, SEND_NOT_TIMED or -errno. */
static long way_find(struct flow *flow, int fd, const struct ktsn_app_key *key, struct way *way)
{
	long err = 0;

	if (!way->session)
		err = session_get(&way->session);
	if (!err && atomic_load_explicit(&flow->stranger, memory_order_acquire))
		err = stranger_ask(way->session, flow, fd);
	if (!err)
		err = flow_register(way->session, flow, fd);
	return err ? err : flow_destination(way->session, flow, key, &way->destination);
}

static bool unanswered(long err)
{
	return err == -ETIMEDOUT || err == -ENOTCONN;
}

/*
 * ktsnd does not answer, or is away. A call that may block waits. To one that may not, and when the time is over, the
 * network is down: EAGAIN would promise that poll() tells when to come back.
 */
static long way_wait(struct flow *flow, int fd, const struct ktsn_app_key *key, int flags, struct way *way)
{
	int64_t until_ms = patience_until_ms(fd, flags);
	long err;
	int waited;

	do {
		/* Looks whether it lives, and for its successor. */
		way->session = NULL;
		err = way_find(flow, fd, key, way);
		waited = unanswered(err) ? patience_wait(until_ms) : 0;
	} while (unanswered(err) && !waited);
	if (!unanswered(err))
		return err;
	if (waited == -EINTR)
		return -EINTR;
	session_unanswered_count();
	return -ENETDOWN;
}

/* Of a namespace in which the pod has no endpoint, loopback and all: as routes through another interface. */
static long elsewhere(struct way *way)
{
	way->destination = (struct destination){.route = KTSN_APP_ROUTE_KERNEL};
	return 0;
}

/* An endpoint of that namespace may have been added since, and be it to a ktsnd that took the place of the other. */
static long elsewhere_ask_again(struct flow *flow, int fd, const struct ktsn_app_key *key, struct way *way)
{
	struct way asked = {.session = NULL};
	long err = flow_may_ask_again(flow) ? way_find(flow, fd, key, &asked) : FLOW_ELSEWHERE;

	if (!err)
		*way = asked;
	/* Without an answer it is where it was. */
	return unanswered(err) || err == -ENETDOWN ? FLOW_ELSEWHERE : err;
}

long way_to(struct flow *flow, int fd, const struct ktsn_app_key *key, int flags, struct way *way)
{
	long err;

	if (way->session && atomic_load_explicit(&flow->elsewhere, memory_order_relaxed)) {
		err = elsewhere_ask_again(flow, fd, key, way);
	} else {
		err = way_find(flow, fd, key, way);
		if (unanswered(err))
			err = way_wait(flow, fd, key, flags, way);
	}
	return err == FLOW_ELSEWHERE ? elsewhere(way) : err;
}
