/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon_timeout.h"

#include "app_protocol.h"
#include "clock.h"
#include "kernel.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { LOOK_NS = 5 * 1000 * 1000 };

/* CLOCK_MONOTONIC, ms: the first and the last request without a reply; 0: ktsnd answered the last one. */
static _Atomic int64_t silent_since_ms, silent_last_ms;

void daemon_silent(void)
{
	int64_t now_ms = monotonic_ms();
	int64_t last_ms = atomic_load_explicit(&silent_last_ms, memory_order_relaxed);

	/* ktsnd may have answered others between two requests that are far apart. */
	if (atomic_load_explicit(&silent_since_ms, memory_order_relaxed) == 0 ||
	    now_ms - last_ms > KTSN_APP_DAEMON_TIMEOUT_MS)
		atomic_store_explicit(&silent_since_ms, now_ms, memory_order_relaxed);
	atomic_store_explicit(&silent_last_ms, now_ms, memory_order_relaxed);
}

void daemon_answered(void)
{
	atomic_store_explicit(&silent_since_ms, 0, memory_order_relaxed);
}

bool call_may_block(int fd, int flags)
{
	long status = kernel_call(SYS_fcntl, fd, F_GETFL);

	return !(flags & MSG_DONTWAIT) && (status < 0 || !(status & O_NONBLOCK));
}

int64_t call_send_timeout_ns(int fd)
{
	struct timeval configured = {0};
	socklen_t bytes = sizeof(configured);

	if (kernel_call(SYS_getsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &configured, &bytes) < 0)
		return INT64_MAX;
	if (configured.tv_sec == 0 && configured.tv_usec == 0)
		return INT64_MAX;
	return (int64_t)configured.tv_sec * 1000000000 + configured.tv_usec * 1000;
}

int64_t daemon_deadline_ms(int fd, int flags)
{
	int64_t now_ms = monotonic_ms();
	int64_t since_ms = atomic_load_explicit(&silent_since_ms, memory_order_relaxed);
	int64_t deadline_ms = (since_ms ? since_ms : now_ms) + KTSN_APP_DAEMON_TIMEOUT_MS;
	int64_t timeout_ms;

	if (!call_may_block(fd, flags))
		return now_ms;
	timeout_ms = call_send_timeout_ns(fd) / 1000000;
	return timeout_ms < deadline_ms - now_ms ? now_ms + timeout_ms : deadline_ms;
}

int daemon_wait(int64_t deadline_ms)
{
	const struct timespec look = {.tv_nsec = LOOK_NS};

	if (monotonic_ms() >= deadline_ms)
		return -ETIMEDOUT;
	return kernel_call(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &look, NULL) == -EINTR ? -EINTR : 0;
}
