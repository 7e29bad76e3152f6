/* SPDX-License-Identifier: Apache-2.0 */
#include "patience.h"

#include "handshake.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

enum { LOOK_NS = 5 * 1000 * 1000 };

/* CLOCK_MONOTONIC, ms: when it was asked in vain first and last; 0: it answered what it was asked last. */
static _Atomic int64_t silent_since_ms, silent_last_ms;

void patience_note_silence(void)
{
	int64_t now_ms = handshake_now_ms();
	int64_t last_ms = atomic_load_explicit(&silent_last_ms, memory_order_relaxed);

	/* Between two questions that lie far apart it may have been well. */
	if (atomic_load_explicit(&silent_since_ms, memory_order_relaxed) == 0 ||
	    now_ms - last_ms > KTSN_APP_PATIENCE_MS)
		atomic_store_explicit(&silent_since_ms, now_ms, memory_order_relaxed);
	atomic_store_explicit(&silent_last_ms, now_ms, memory_order_relaxed);
}

void patience_note_answer(void)
{
	atomic_store_explicit(&silent_since_ms, 0, memory_order_relaxed);
}

int patience_may_block(int fd, int flags)
{
	long status = kernel_call(SYS_fcntl, fd, F_GETFL);

	return !(flags & MSG_DONTWAIT) && (status < 0 || !(status & O_NONBLOCK));
}

int64_t patience_send_timeout_ns(int fd)
{
	struct timeval configured = {0};
	socklen_t bytes = sizeof(configured);

	if (kernel_call(SYS_getsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &configured, &bytes) < 0)
		return INT64_MAX;
	if (configured.tv_sec == 0 && configured.tv_usec == 0)
		return INT64_MAX;
	return (int64_t)configured.tv_sec * 1000000000 + configured.tv_usec * 1000;
}

int64_t patience_until_ms(int fd, int flags)
{
	int64_t now_ms = handshake_now_ms();
	int64_t since_ms = atomic_load_explicit(&silent_since_ms, memory_order_relaxed);
	int64_t until_ms = (since_ms ? since_ms : now_ms) + KTSN_APP_PATIENCE_MS;
	int64_t timeout_ms;

	if (!patience_may_block(fd, flags))
		return now_ms;
	timeout_ms = patience_send_timeout_ns(fd) / 1000000;
	return timeout_ms < until_ms - now_ms ? now_ms + timeout_ms : until_ms;
}

int patience_wait(int64_t until_ms)
{
	const struct timespec look = {.tv_nsec = LOOK_NS};

	if (handshake_now_ms() >= until_ms)
		return -ETIMEDOUT;
	return kernel_call(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &look, NULL) == -EINTR ? -EINTR : 0;
}
