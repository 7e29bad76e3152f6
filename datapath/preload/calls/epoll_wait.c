/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoll_wait, epoll_pwait and epoll_pwait2: the kernel wakes them by the notifiers in the set. A dead ktsnd
 * would not empty a space notifier, and would not report what was handed over. While any socket waits for
 * space, or ktsnd was found gone, a wait is therefore cut into slices, to look for ktsnd's successor in
 * between, as in poll. An EPOLLERR is noted for sockets with a receive ring (receive/inbox_read.h).
 */
#include "clock.h"
#include "export.h"
#include "inbox_read.h"
#include "inbox_table.h"
#include "liveness.h"
#include "next.h"
#include "space_notifier.h"

#include <sys/epoll.h>

enum { SLICE_MS = 100, NS_PER_MS = 1000000 };

/* A call; until_ns is INT64_MAX without a timeout. */
struct epoll_call {
	int epoll_fd, max;
	struct epoll_event *events;
	const sigset_t *signals;
	int64_t until_ns; /* CLOCK_MONOTONIC */
};

/* Returns the length of the next slice, rounded up as the kernel does with milliseconds; *last is set when
 * it is the rest. */
static int slice_ms(const struct epoll_call *call, bool *last)
{
	int64_t left_ns = call->until_ns == INT64_MAX ? INT64_MAX : call->until_ns - monotonic_ns();

	*last = left_ns <= (int64_t)SLICE_MS * NS_PER_MS;
	if (!*last)
		return SLICE_MS;
	return left_ns <= 0 ? 0 : (int)((left_ns + NS_PER_MS - 1) / NS_PER_MS);
}

static int noted(const struct epoll_event *events, int ready)
{
	for (int i = 0; i < ready && inboxes_wanted(); i++) {
		if (!(events[i].events & EPOLLERR))
			continue;
		inbox_error_reported();
		break;
	}
	return ready;
}

static int sliced(const struct epoll_call *call)
{
	for (;;) {
		struct session *session = session_existing();
		bool last;
		int ready = next_epoll_pwait(call->epoll_fd, call->events, call->max, slice_ms(call, &last),
					     call->signals);

		if (ready || last)
			return ready;
		if (session)
			session_check(session, KTSN_CLOCK_TAI, true);
	}
}

static int64_t until_of_ms(int timeout_ms)
{
	return timeout_ms < 0 ? INT64_MAX : monotonic_ns() + (int64_t)timeout_ms * NS_PER_MS;
}

static bool to_be_sliced(void)
{
	return space_awaited_any() || session_is_lost();
}

EXPORT int epoll_wait(int epoll_fd, struct epoll_event *events, int max, int timeout_ms)
{
	struct epoll_call call = {.epoll_fd = epoll_fd, .max = max, .events = events};

	if (timeout_ms == 0 || !to_be_sliced())
		return noted(events, next_epoll_wait(epoll_fd, events, max, timeout_ms));
	call.until_ns = until_of_ms(timeout_ms);
	return noted(events, sliced(&call));
}

EXPORT int epoll_pwait(int epoll_fd, struct epoll_event *events, int max, int timeout_ms,
		       const sigset_t *signals)
{
	struct epoll_call call = {.epoll_fd = epoll_fd, .max = max, .events = events, .signals = signals};

	if (timeout_ms == 0 || !to_be_sliced())
		return noted(events, next_epoll_pwait(epoll_fd, events, max, timeout_ms, signals));
	call.until_ns = until_of_ms(timeout_ms);
	return noted(events, sliced(&call));
}

/* A wait of less than a slice is not cut and stays exact. */
static bool is_short(const struct timespec *timeout)
{
	return timeout && (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= 1000000000 ||
			   (timeout->tv_sec == 0 && timeout->tv_nsec <= (long)SLICE_MS * NS_PER_MS));
}

EXPORT int epoll_pwait2(int epoll_fd, struct epoll_event *events, int max, const struct timespec *timeout,
			const sigset_t *signals)
{
	struct epoll_call call = {.epoll_fd = epoll_fd, .max = max, .events = events, .signals = signals};

	if (!to_be_sliced() || is_short(timeout))
		return noted(events, next_epoll_pwait2(epoll_fd, events, max, timeout, signals));
	call.until_ns = monotonic_deadline_ns(timeout);
	return noted(events, sliced(&call));
}
