/* SPDX-License-Identifier: Apache-2.0 */
#include "space_wait.h"

#include "clock.h"
#include "daemon_timeout.h"
#include "epoll_record.h"
#include "liveness.h"
#include "socket_options.h"
#include "space_notifier.h"

#include <poll.h>
#include <sys/socket.h>

#define WITHOUT_LIMIT INT64_MAX

enum {
	/* Interval of checks without a notifier. */
	LOOK_NS = 5 * 1000 * 1000,
	/* The longest wait of a call that may not block: see unseen_wait(). */
	UNSEEN_NS = 2 * 1000 * 1000,
	/* Interval of checks for the successor of a dead ktsnd. */
	SLICE_NS = 100 * 1000 * 1000,
};

static long nap(int64_t slice_ns)
{
	const struct timespec left = timespec_of_ns(slice_ns < LOOK_NS ? slice_ns : LOOK_NS);

	return kernel_call(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &left, NULL) == -EINTR ? -EINTR
											   : -ETIMEDOUT;
}

long space_wait(struct session *session, struct flow *flow, int64_t slice_ns)
{
	struct pollfd space = {.fd = space_notifier_fd(flow), .events = POLLOUT};
	struct timespec left = timespec_of_ns(slice_ns); /* the kernel writes into it */
	long ready;

	if (space.fd < 0)
		return nap(slice_ns);
	space_await(session, flow);
	ready = kernel_call(SYS_ppoll, &space, 1, &left, NULL, 0);
	if (ready == 0)
		return -ETIMEDOUT;
	if (ready < 0)
		return ready;
	/* POLLNVAL: the application closed the notifier. */
	return space.revents & POLLNVAL ? nap(slice_ns) : 0;
}

/* Sleeps for a slice. -EAGAIN when the time is over, -EINTR, or 0 to check for space again. */
static int space_sleep(struct session *session, struct flow *flow, int64_t until_ns)
{
	int64_t left_ns = until_ns == WITHOUT_LIMIT ? WITHOUT_LIMIT : until_ns - monotonic_ns();
	long slept;

	if (left_ns <= 0)
		return -EAGAIN;
	slept = space_wait(session, flow, left_ns < SLICE_NS ? left_ns : SLICE_NS);
	if (slept == -EINTR)
		return -EINTR;
	if (slept == -ETIMEDOUT)
		session_check(session, flow->clock, true);
	return 0;
}

/* Takes a pending error of the socket, such as ECONNREFUSED. The kernel is asked once per tick of its
 * coarse clock: an error may be a few milliseconds late. */
static int pending_error(struct flow *flow, int fd)
{
	int64_t now_ns = monotonic_coarse_ns();
	int error = 0;

	if (now_ns == atomic_load_explicit(&flow->error_looked_ns, memory_order_relaxed))
		return 0;
	atomic_store_explicit(&flow->error_looked_ns, now_ns, memory_order_relaxed);
	(void)socket_option_read(fd, SOL_SOCKET, SO_ERROR, &error);
	return -error;
}

/* The checks that the kernel makes before it allocates memory for a packet (sock_alloc_send_pskb()). */
static int socket_state(struct flow *flow, int fd)
{
	int err = pending_error(flow, fd);

	if (!err && atomic_load_explicit(&flow->write_shut_down, memory_order_relaxed))
		err = -EPIPE;
	return err;
}

static long wait_and_try(struct session *session, struct flow *flow, int fd, long (*attempt)(void *context),
			 void *context)
{
	int64_t timeout_ns = call_send_timeout_ns(fd), now_ns = monotonic_ns();
	int64_t until_ns = timeout_ns > INT64_MAX - now_ns ? WITHOUT_LIMIT : now_ns + timeout_ns;
	long err, result;

	do {
		err = space_sleep(session, flow, until_ns);
		if (!err)
			err = socket_state(flow, fd);
		result = err ? err : attempt(context);
	} while (!err && result == -EAGAIN);
	return result;
}

/* The kernel considers the socket writable. A loop that waits for it in a set without the space notifier
 * would send again and again without a pause. Returns whether the call waits here instead. */
static bool unseen_wait(struct session *session, struct flow *flow)
{
	return epoll_unseen() &&
	       !atomic_load_explicit(&flow->poll_state.members_used, memory_order_relaxed) &&
	       space_wait(session, flow, UNSEEN_NS) == 0;
}

long space_try(struct session *session, struct flow *flow, int fd, int flags, long (*attempt)(void *context),
	       void *context)
{
	long result = socket_state(flow, fd);

	if (result == 0)
		result = attempt(context);
	if (result == -EAGAIN && call_may_block(fd, flags))
		result = wait_and_try(session, flow, fd, attempt, context);
	else if (result == -EAGAIN && unseen_wait(session, flow))
		result = attempt(context);
	if (result == -EAGAIN) {
		session_check(session, flow->clock, true);
		space_await(session, flow);
	}
	return result;
}
