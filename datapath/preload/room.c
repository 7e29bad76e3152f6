/* SPDX-License-Identifier: Apache-2.0 */
#include "room.h"

#include "flow_table.h"
#include "patience.h"
#include "space.h"

#include <time.h>

/* For waiting in a full ring. */
#define WITHOUT_LIMIT INT64_MAX
enum { SLICE_NS = 100 * 1000 * 1000 };

static int64_t monotonic_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* One sleep, in slices: who waits for a dead ktsnd must look for its successor now and then. Returns
 * -EAGAIN when the time is over, -EINTR, or 0 to look for a slot again. */
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

/* CLOCK_MONOTONIC */
static int64_t sleep_until_ns(int fd)
{
	int64_t timeout_ns = patience_send_timeout_ns(fd), now_ns = monotonic_ns();

	return timeout_ns > INT64_MAX - now_ns ? WITHOUT_LIMIT : now_ns + timeout_ns;
}

static int64_t coarse_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* An error of the socket that waits to be told, such as ECONNREFUSED, and is told by that. The kernel is asked once a
 * tick of its coarse clock: so long, a few milliseconds at most, an error may wait behind the messages. */
static int pending_error(struct flow *flow, int fd)
{
	int64_t now_ns = coarse_ns();
	int error = 0;
	socklen_t bytes = sizeof(error);

	if (now_ns == atomic_load_explicit(&flow->error_looked_ns, memory_order_relaxed))
		return 0;
	atomic_store_explicit(&flow->error_looked_ns, now_ns, memory_order_relaxed);
	(void)kernel_call(SYS_getsockopt, fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
	return -error;
}

/* What the kernel looks at before it gives a packet memory (sock_alloc_send_pskb()). */
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
	int64_t until_ns = sleep_until_ns(fd);
	long err, result;

	do {
		err = space_sleep(session, flow, until_ns);
		if (!err)
			err = socket_state(flow, fd);
		result = err ? err : attempt(context);
	} while (!err && result == -EAGAIN);
	return result;
}

long room_try(struct session *session, struct flow *flow, int fd, int flags, long (*attempt)(void *context),
	      void *context)
{
	long result = socket_state(flow, fd);

	if (result == 0)
		result = attempt(context);
	if (result == -EAGAIN && patience_may_block(fd, flags))
		result = wait_and_try(session, flow, fd, attempt, context);
	if (result == -EAGAIN) {
		session_check(session, flow->clock, true);
		waiting_space_await(session, flow);
	}
	return result;
}
