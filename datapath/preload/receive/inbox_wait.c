/* SPDX-License-Identifier: Apache-2.0 */
#include "inbox_wait.h"

#include "clock.h"
#include "socket_options.h"

#include <poll.h>
#include <sys/time.h>

#define WITHOUT_LIMIT INT64_MAX

enum {
	RDHUP = 0x2000, /* POLLRDHUP, which <poll.h> declares for _GNU_SOURCE only */
	/* Between two looks at the socket while its error queue keeps it from being waited for. */
	LOOK_NS = 10 * 1000 * 1000,
	/* Looks in a row at a record that is being written, and how long is waited before each later one. */
	BUSY_LOOKS = 64,
	BUSY_NS = 50 * 1000,
	SIGNALS = 64,
	/* The C libraries' own. */
	RESERVED_FIRST = 32,
	RESERVED_LAST = 34,
};

/* The beginning of the kernel's struct sigaction, the same on the processors that libktsn serves. */
struct kernel_action {
	void *handler;
	unsigned long flags;
	unsigned long rest[4];
};

/*
 * Whether the kernel would go on with a receiving call after a signal: SA_RESTART. Which signal came is not
 * known, so all handlers of the process must have it. Where they differ, EINTR is the safe answer: a program
 * that wants to be interrupted would wait for ever.
 */
static bool handlers_restart(void)
{
	for (int signal = 1; signal <= SIGNALS; signal++) {
		struct kernel_action action = {.handler = NULL};

		if (signal >= RESERVED_FIRST && signal <= RESERVED_LAST)
			continue;
		if (kernel_call(SYS_rt_sigaction, signal, NULL, &action, 8) < 0)
			continue;
		if (action.handler != (void *)SIG_DFL && action.handler != (void *)SIG_IGN &&
		    !(action.flags & SA_RESTART))
			return false;
	}
	return true;
}

static int64_t until_of(int fd)
{
	struct timeval configured = {0};
	socklen_t bytes = sizeof(configured);
	int64_t timeout_ns, now_ns = monotonic_ns();

	if (kernel_call(SYS_getsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &configured, &bytes) < 0 ||
	    (configured.tv_sec == 0 && configured.tv_usec == 0))
		return WITHOUT_LIMIT;
	if (__builtin_mul_overflow((int64_t)configured.tv_sec, 1000000000, &timeout_ns) ||
	    __builtin_add_overflow(timeout_ns, configured.tv_usec * 1000, &timeout_ns) ||
	    __builtin_add_overflow(timeout_ns, now_ns, &timeout_ns))
		return WITHOUT_LIMIT;
	return timeout_ns;
}

static long poll_for(struct pollfd *fds, unsigned int count, int64_t left_ns)
{
	struct timespec left = timespec_of_ns(left_ns);

	return kernel_call(SYS_ppoll, fds, count, left_ns == WITHOUT_LIMIT ? NULL : &left, NULL, 0);
}

static int64_t left_of(const struct inbox_wait *wait)
{
	int64_t left_ns;

	if (wait->until_ns == WITHOUT_LIMIT)
		return WITHOUT_LIMIT;
	left_ns = wait->until_ns - monotonic_ns();
	return left_ns > 0 ? left_ns : 0;
}

/* A socket whose error queue holds something is always ready, and is no reason to return: its own queue is
 * looked at now and then. */
static long look_soon(struct pollfd *ring, int64_t left_ns)
{
	return poll_for(ring, ring->fd >= 0 ? 1 : 0, left_ns < LOOK_NS ? left_ns : LOOK_NS);
}

static int outcome(struct inbox *inbox, long ready, const struct pollfd fds[2], struct inbox_wait *wait)
{
	if (ready == -EINTR)
		return wait->until_ns == WITHOUT_LIMIT && handlers_restart() ? 0 : -EINTR;
	if (ready < 0)
		return (int)ready;
	if (fds[1].revents & POLLNVAL)
		return -EBADF;
	if (fds[1].revents & RDHUP)
		wait->shut_down = true;
	if (fds[1].revents)
		/* The kernel has something: an error, or a datagram that may not be counted yet. */
		atomic_store_explicit(&inbox->looked_ns, 0, memory_order_relaxed);
	return 0;
}

/* The oldest record is still being written: the kernel calls such a ring readable. Where programs of the
 * kernel can be preempted (PREEMPT_RT), the writer may need the processor that this thread has. */
static long look_again(struct pollfd *socket, int64_t left_ns, struct inbox_wait *wait)
{
	if (++wait->busy <= BUSY_LOOKS)
		return 0;
	return poll_for(socket, 1, left_ns < BUSY_NS ? left_ns : BUSY_NS);
}

int inbox_sleep(struct inbox *inbox, int fd, struct inbox_wait *wait)
{
	struct pollfd fds[2] = {{.fd = inbox->ring_fd, .events = POLLIN},
				{.fd = fd, .events = POLLIN | RDHUP}};
	int64_t left_ns;
	long ready;

	if (!wait->until_ns)
		wait->until_ns = until_of(fd);
	left_ns = left_of(wait);
	if (left_ns == 0)
		return -EAGAIN;
	if (inbox_has(inbox))
		return outcome(inbox, look_again(&fds[1], left_ns, wait), fds, wait);
	wait->busy = 0;
	/* Before the kernel looks whether the ring holds something; the program looks after it has put
	 * something there. */
	atomic_fetch_add_explicit(inbox->sleeping, 1, memory_order_seq_cst);
	ready = poll_for(fds, 2, left_ns);
	if (ready > 0 && !fds[0].revents && fds[1].revents == POLLERR)
		ready = look_soon(&fds[0], left_ns);
	else if (ready > 0 && fds[0].revents & POLLNVAL && !fds[1].revents)
		/* The application closed the ring's descriptor by a system call. */
		ready = poll_for(&fds[1], 1, left_ns < LOOK_NS ? left_ns : LOOK_NS);
	atomic_fetch_sub_explicit(inbox->sleeping, 1, memory_order_relaxed);
	return outcome(inbox, ready, fds, wait);
}
