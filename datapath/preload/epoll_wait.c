/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoll_wait and its kin: the kernel wakes, and there is nothing to add to what it says. Only while a socket waits for
 * space that a dead ktsnd was to give, nobody would: then a wait is cut into slices, to look for its successor, as poll
 * does it. All else is one look at whether any socket waits for space.
 */
#include "next.h"
#include "session.h"
#include "waiting.h"

#include <sys/epoll.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum { SLICE_MS = 100, NS_PER_MS = 1000000 };

/* One call: without a timeout until_ns is INT64_MAX. */
struct epoll_call {
	int epoll_fd, max;
	struct epoll_event *events;
	const sigset_t *signals;
	int64_t until_ns; /* CLOCK_MONOTONIC */
};

static int64_t monotonic_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Returns how long the next slice is, rounded up as the kernel does it with milliseconds; *last when it is the rest. */
static int slice_ms(const struct epoll_call *call, bool *last)
{
	int64_t left_ns = call->until_ns == INT64_MAX ? INT64_MAX : call->until_ns - monotonic_ns();

	*last = left_ns <= (int64_t)SLICE_MS * NS_PER_MS;
	if (!*last)
		return SLICE_MS;
	return left_ns <= 0 ? 0 : (int)((left_ns + NS_PER_MS - 1) / NS_PER_MS);
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

/* One that is too long to be reckoned with is for ever. */
static int64_t until_of(const struct timespec *timeout)
{
	int64_t until_ns;

	if (!timeout || __builtin_mul_overflow((int64_t)timeout->tv_sec, 1000000000, &until_ns) ||
	    __builtin_add_overflow(until_ns, (int64_t)timeout->tv_nsec + monotonic_ns(), &until_ns))
		return INT64_MAX;
	return until_ns;
}

static bool to_be_sliced(int timeout_ms)
{
	return waiting_any_for_space() && timeout_ms != 0;
}

EXPORT int epoll_wait(int epoll_fd, struct epoll_event *events, int max, int timeout_ms)
{
	struct epoll_call call = {.epoll_fd = epoll_fd, .max = max, .events = events};

	if (!to_be_sliced(timeout_ms))
		return next_epoll_wait(epoll_fd, events, max, timeout_ms);
	call.until_ns = until_of_ms(timeout_ms);
	return sliced(&call);
}

EXPORT int epoll_pwait(int epoll_fd, struct epoll_event *events, int max, int timeout_ms,
		       const sigset_t *signals)
{
	struct epoll_call call = {.epoll_fd = epoll_fd, .max = max, .events = events, .signals = signals};

	if (!to_be_sliced(timeout_ms))
		return next_epoll_pwait(epoll_fd, events, max, timeout_ms, signals);
	call.until_ns = until_of_ms(timeout_ms);
	return sliced(&call);
}

/* A wait of less than a slice is left whole, and exact. */
static bool is_short(const struct timespec *timeout)
{
	return timeout && (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= 1000000000 ||
			   (timeout->tv_sec == 0 && timeout->tv_nsec <= (long)SLICE_MS * NS_PER_MS));
}

EXPORT int epoll_pwait2(int epoll_fd, struct epoll_event *events, int max, const struct timespec *timeout,
			const sigset_t *signals)
{
	struct epoll_call call = {.epoll_fd = epoll_fd, .max = max, .events = events, .signals = signals};

	if (!waiting_any_for_space() || is_short(timeout))
		return next_epoll_pwait2(epoll_fd, events, max, timeout, signals);
	call.until_ns = until_of(timeout);
	return sliced(&call);
}
