/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raising EPOLLERR without a kernel that would do it for us: see daemon/node/notifiers.c and docs/decisions/0007.
 */
#include "waiting.h"

#include "flow_table.h"
#include "own_fds.h"
#include "registration.h"
#include "session.h"

#include <linux/net_tstamp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/un.h>

#ifndef SO_SELECT_ERR_QUEUE
#define SO_SELECT_ERR_QUEUE 45
#endif

#define SPACE_FULL (UINT64_MAX - 1)

/* Sockets of this process whose space_awaited is set. */
static _Atomic uint32_t awaiting;

/* The kernel chooses a name that is unique in the pod's network namespace. */
static int name_take(int fd, struct alarm_name *name)
{
	const struct sockaddr any = {.sa_family = AF_UNIX};
	long err = kernel_call(SYS_bind, fd, &any, sizeof(any.sa_family));

	name->length = sizeof(name->bytes);
	if (err >= 0)
		err = kernel_call(SYS_getsockname, fd, name->bytes, &name->length);
	return err < 0 ? (int)err : name->length == ALARM_NAME_BYTES ? 0 : -ENAMETOOLONG;
}

static void peers_join(const struct waiting *waiting)
{
	(void)kernel_call(SYS_connect, waiting->far_fd, waiting->near_name.bytes, waiting->near_name.length);
}

static void peers_part(const struct waiting *waiting)
{
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};

	(void)kernel_call(SYS_connect, waiting->far_fd, &nobody, sizeof(nobody));
}

/* As ktsnd does it. */
static void alarm_raise(const struct waiting *waiting)
{
	(void)kernel_call(SYS_sendto, waiting->far_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL,
			  waiting->far_name.bytes, waiting->far_name.length);
	peers_join(waiting);
	peers_part(waiting);
}

static int alarm_make(struct waiting *waiting, int *near_fd)
{
	int pair[2];
	long err = kernel_call(SYS_socketpair, AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair);

	if (err < 0)
		return (int)err;
	err = name_take(pair[0], &waiting->near_name);
	if (!err)
		err = name_take(pair[1], &waiting->far_name);
	if (err) {
		(void)kernel_call(SYS_close, pair[0]);
		(void)kernel_call(SYS_close, pair[1]);
		return (int)err;
	}
	*near_fd = own_fd_keep(pair[0]);
	waiting->far_fd = own_fd_keep(pair[1]);
	peers_part(waiting);
	return 0;
}

static bool reports(const struct flow *flow)
{
	return flow->txtime_flags & SOF_TXTIME_REPORT_ERRORS;
}

/* Its number, if the flow is registered with that session. */
static bool registered(const struct session *session, const struct flow *flow)
{
	return session && flow->number_session == session->number;
}

static void alarm_register(struct session *session, struct flow *flow)
{
	struct waiting *waiting = &flow->waiting;
	bool given;

	if (atomic_load_explicit(&waiting->alarm_fd, memory_order_relaxed) < 0)
		return;
	given = flow_wake_give(session, flow, KTSN_APP_WAKE_REPORT, waiting->far_fd) == 0;
	atomic_store_explicit(&waiting->alarm_given, given, memory_order_release);
	if (ktsn_ring_report_waits(&session->ring, flow->number))
		alarm_raise(waiting);
}

static void space_register(struct session *session, struct flow *flow)
{
	int fd = atomic_load_explicit(&flow->waiting.space_fd, memory_order_relaxed);
	uint64_t count;
	bool given;

	if (fd < 0)
		return;
	given = flow_wake_give(session, flow, KTSN_APP_WAKE_SPACE, fd) == 0;
	atomic_store_explicit(&flow->waiting.space_given, given, memory_order_release);
	/* A ktsnd that died may have given it back and told nobody. */
	ktsn_ring_space_poll(&session->ring, flow->number);
	if (waiting_has_space(session, flow))
		(void)kernel_call(SYS_read, fd, &count, sizeof(count));
}

void waiting_register(struct session *session, struct flow *flow)
{
	lock_take(&flow->waiting.lock);
	alarm_register(session, flow);
	space_register(session, flow);
	lock_give(&flow->waiting.lock);
}

/* Another thread may be just registering the flow: it does this too, under the gate. */
static void register_now(struct flow *flow, void (*give)(struct session *, struct flow *))
{
	struct session *session = session_existing();

	if (!session)
		return;
	lock_take(&session->gate);
	lock_take(&flow->lock);
	lock_take(&flow->waiting.lock);
	if (registered(session, flow))
		give(session, flow);
	lock_give(&flow->waiting.lock);
	lock_give(&flow->lock);
	lock_give(&session->gate);
}

/* ktsnd may have been too slow to answer. Before the flow is registered there is nothing to be told. */
static void register_if_due(struct flow *flow, _Atomic bool *given,
			    void (*give)(struct session *, struct flow *))
{
	if (!atomic_load_explicit(given, memory_order_acquire) && registered(session_existing(), flow))
		register_now(flow, give);
}

/* The kernel has the same option for the alarm. */
static void exceptions_apply(const struct waiting *waiting, int fd)
{
	int exceptions = atomic_load_explicit(&waiting->exceptions, memory_order_relaxed);

	(void)kernel_call(SYS_setsockopt, fd, SOL_SOCKET, SO_SELECT_ERR_QUEUE, &exceptions,
			  sizeof(exceptions));
}

void waiting_exceptions_set(struct flow *flow, bool exceptions)
{
	int fd;

	lock_take(&flow->waiting.lock);
	atomic_store_explicit(&flow->waiting.exceptions, exceptions, memory_order_relaxed);
	fd = atomic_load_explicit(&flow->waiting.alarm_fd, memory_order_relaxed);
	if (fd >= 0)
		exceptions_apply(&flow->waiting, fd);
	lock_give(&flow->waiting.lock);
}

int waiting_alarm(struct flow *flow)
{
	struct waiting *waiting = &flow->waiting;
	int fd = atomic_load_explicit(&waiting->alarm_fd, memory_order_acquire);

	if (flow->left_to_kernel || (fd < 0 && !reports(flow)))
		return fd;
	if (fd >= 0) {
		register_if_due(flow, &waiting->alarm_given, alarm_register);
		return fd;
	}
	lock_take(&waiting->lock);
	fd = atomic_load_explicit(&waiting->alarm_fd, memory_order_relaxed);
	if (fd < 0 && alarm_make(waiting, &fd) == 0) {
		exceptions_apply(waiting, fd);
		atomic_store_explicit(&waiting->alarm_fd, fd, memory_order_release);
	}
	lock_give(&waiting->lock);
	if (fd >= 0)
		register_now(flow, alarm_register);
	return fd;
}

int waiting_space(struct flow *flow)
{
	struct waiting *waiting = &flow->waiting;
	struct session *session = session_existing();
	int fd = atomic_load_explicit(&waiting->space_fd, memory_order_acquire);
	long made;

	if (flow->left_to_kernel)
		return fd;
	if (fd >= 0) {
		register_if_due(flow, &waiting->space_given, space_register);
		return fd;
	}
	lock_take(&waiting->lock);
	fd = atomic_load_explicit(&waiting->space_fd, memory_order_relaxed);
	if (fd < 0) {
		made = kernel_call(SYS_eventfd2, 0, EFD_NONBLOCK | EFD_CLOEXEC);
		fd = made < 0 ? -1 : own_fd_keep((int)made);
		atomic_store_explicit(&waiting->space_fd, fd, memory_order_release);
	}
	lock_give(&waiting->lock);
	if (fd >= 0) {
		register_now(flow, space_register);
		if (registered(session, flow) && !waiting_has_space(session, flow))
			waiting_space_await(session, flow);
	}
	return fd;
}

static void alarm_end(int fd)
{
	int err;
	socklen_t bytes = sizeof(err);

	(void)kernel_call(SYS_getsockopt, fd, SOL_SOCKET, SO_ERROR, &err, &bytes);
}

void waiting_alarm_settle(struct session *session, struct flow *flow)
{
	int fd = atomic_load_explicit(&flow->waiting.alarm_fd, memory_order_acquire);

	if (fd < 0 || ktsn_ring_report_waits(&session->ring, flow->number))
		return;
	alarm_end(fd);
	/* What came between the look and the end had its alarm taken away. */
	if (ktsn_ring_report_waits(&session->ring, flow->number))
		alarm_raise(&flow->waiting);
}

/* What the socket's messages take of its send buffer. The line that ktsnd writes is read only when what was read
 * before does not suffice. */
bool waiting_has_room(struct session *session, struct flow *flow)
{
	uint64_t sent = atomic_load_explicit(&flow->sent_bytes, memory_order_relaxed);
	uint64_t limit = atomic_load_explicit(&flow->send_buffer_bytes, memory_order_relaxed);
	uint64_t released = atomic_load_explicit(&flow->released_seen, memory_order_relaxed);

	/* As differences: the counts began anywhere. */
	if (!limit || (int64_t)(sent - released) < (int64_t)limit)
		return true;
	released = ktsn_ring_released_bytes(&session->ring, flow->number);
	atomic_store_explicit(&flow->released_seen, released, memory_order_relaxed);
	return (int64_t)(sent - released) < (int64_t)limit;
}

bool waiting_has_space(struct session *session, struct flow *flow)
{
	uint32_t slots = atomic_load_explicit(&flow->waiting.slots_wanted, memory_order_relaxed);

	return waiting_has_room(session, flow) && ktsn_ring_has_space(&session->ring, slots);
}

void waiting_space_await(struct session *session, struct flow *flow)
{
	int fd = atomic_load_explicit(&flow->waiting.space_fd, memory_order_acquire);
	uint64_t full = SPACE_FULL, count;

	if (fd < 0)
		return;
	if (!atomic_exchange_explicit(&flow->waiting.space_awaited, true, memory_order_relaxed))
		atomic_fetch_add_explicit(&awaiting, 1, memory_order_relaxed);
	(void)kernel_call(SYS_write, fd, &full, sizeof(full));
	ktsn_ring_space_poll(&session->ring, flow->number);
	/* It may have come before ktsnd knew that it is waited for; or the wake-up of a shut down socket before there
	 * was something to wake. */
	if (waiting_has_space(session, flow) ||
	    atomic_load_explicit(&flow->write_shut_down, memory_order_seq_cst))
		(void)kernel_call(SYS_read, fd, &count, sizeof(count));
}

void waiting_space_wake(struct flow *flow)
{
	int fd = atomic_load_explicit(&flow->waiting.space_fd, memory_order_acquire);
	uint64_t count;

	if (fd >= 0)
		(void)kernel_call(SYS_read, fd, &count, sizeof(count));
}

static bool wake_if_awaited(int fd, struct flow *flow, void *session)
{
	(void)fd;
	if (atomic_load_explicit(&flow->waiting.space_awaited, memory_order_relaxed) &&
	    waiting_has_space(session, flow))
		waiting_space_wake(flow);
	return flow_release(flow);
}

void waiting_slot_freed(struct session *session)
{
	if (waiting_any_for_space())
		flow_each(wake_if_awaited, session);
}

static void awaited_end(struct waiting *waiting)
{
	if (atomic_load_explicit(&waiting->space_awaited, memory_order_relaxed) &&
	    atomic_exchange_explicit(&waiting->space_awaited, false, memory_order_relaxed))
		atomic_fetch_sub_explicit(&awaiting, 1, memory_order_relaxed);
}

void waiting_space_found(struct flow *flow)
{
	awaited_end(&flow->waiting);
}

bool waiting_any_for_space(void)
{
	return atomic_load_explicit(&awaiting, memory_order_relaxed) > 0;
}

static void place_clear(struct epoll_place *place)
{
	/* Copies of one file: closing them does not take them out of the set. */
	if (place->alarm_fd >= 0)
		(void)kernel_call(SYS_epoll_ctl, place->epoll_fd, EPOLL_CTL_DEL, place->alarm_fd, NULL);
	if (place->space_fd >= 0)
		(void)kernel_call(SYS_epoll_ctl, place->epoll_fd, EPOLL_CTL_DEL, place->space_fd, NULL);
	own_fd_close(place->alarm_fd);
	own_fd_close(place->space_fd);
	place->epoll_fd = -1;
}

void waiting_fd_gone(struct flow *flow, int fd)
{
	struct waiting *waiting = &flow->waiting;

	if (!atomic_load_explicit(&waiting->places_used, memory_order_relaxed))
		return;
	lock_take(&waiting->lock);
	for (int i = 0; i < WAITING_EPOLL_SETS; i++)
		if (waiting->places[i].epoll_fd >= 0 && waiting->places[i].fd == fd)
			place_clear(&waiting->places[i]);
	lock_give(&waiting->lock);
}

void waiting_close(struct waiting *waiting)
{
	awaited_end(waiting);
	for (int i = 0; i < WAITING_EPOLL_SETS; i++) {
		own_fd_close(waiting->places[i].epoll_fd >= 0 ? waiting->places[i].alarm_fd : -1);
		own_fd_close(waiting->places[i].epoll_fd >= 0 ? waiting->places[i].space_fd : -1);
	}
	own_fd_close(atomic_load_explicit(&waiting->alarm_fd, memory_order_relaxed));
	own_fd_close(atomic_load_explicit(&waiting->space_fd, memory_order_relaxed));
	own_fd_close(waiting->far_fd);
	waiting_reset(waiting);
}
