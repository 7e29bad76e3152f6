/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poll, ppoll, select and pselect. A timed socket among the descriptors waits with its alarm beside it, and instead of
 * POLLOUT, which the kernel would grant at any time, with the eventfd that says whether there is space. All the rest
 * is one look at how many timed sockets there are.
 */
#include "flow_table.h"
#include "next.h"
#include "registration.h"
#include "session.h"

#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum {
	WRITABLE = POLLOUT | POLLWRNORM | POLLWRBAND,
	/* Descriptors that one call may bring without memory being mapped for it. */
	ON_STACK = 64,
	OWN = 2, /* of each socket: alarm, space */
	/* Who waits for space that a dead ktsnd was to give must look for its successor now and then. */
	SLICE_NS = 100 * 1000 * 1000,
	EACH_BYTES = (1 + OWN) * sizeof(struct pollfd) + OWN * sizeof(nfds_t),
};

/* One call, with what it waits for in place of the application's list. */
struct wait {
	struct pollfd *fds; /* the application's */
	nfds_t count;
	struct pollfd *real; /* the same, then our own */
	nfds_t *owners;      /* of our own: which of the application's they stand for */
	nfds_t own_count;
	bool blocked;          /* a socket has no space */
	enum ktsn_clock clock; /* of one that has none */
	bool own_lost;         /* one of our own was closed behind our back: wait with the kernel's alone */
};

static void own_add(struct wait *wait, nfds_t owner, int fd, short events)
{
	if (fd < 0)
		return;
	wait->real[wait->count + wait->own_count] = (struct pollfd){.fd = fd, .events = events};
	wait->owners[wait->own_count++] = owner;
}

static void writable_replace(struct wait *wait, struct session *session, struct flow *flow, nfds_t at)
{
	int space_fd;

	if (!(wait->real[at].events & WRITABLE) || waiting_has_space(session, flow))
		return;
	space_fd = waiting_space(flow);
	if (space_fd < 0)
		return;
	waiting_space_await(session, flow);
	wait->real[at].events &= (short)~WRITABLE;
	own_add(wait, at, space_fd, POLLOUT);
	wait->blocked = true;
	wait->clock = flow->clock;
}

static void flow_add(struct wait *wait, struct session *session, nfds_t at)
{
	struct flow *flow = wait->real[at].fd < 0 ? NULL : flow_acquire(wait->real[at].fd);

	if (!flow)
		return;
	if (!flow->left_to_kernel) {
		own_add(wait, at, waiting_alarm(flow), wait->real[at].events & POLLPRI);
		if (session && flow->number_session == session->number)
			writable_replace(wait, session, flow, at);
	}
	flow_put(flow);
}

static void wait_fill(struct wait *wait)
{
	struct session *session = session_existing();

	memcpy(wait->real, wait->fds, wait->count * sizeof(*wait->fds));
	wait->own_count = 0;
	wait->blocked = false;
	for (nfds_t i = 0; i < wait->count && !wait->own_lost; i++)
		flow_add(wait, session, i);
}

/* There may be by now, and ktsnd not have come to say so. */
static bool has_space_now(int fd)
{
	struct session *session = session_existing();
	struct flow *flow = session ? flow_acquire(fd) : NULL;
	bool space;

	if (!flow)
		return true;
	space = flow->number_session != session->number || waiting_has_space(session, flow);
	flow_put(flow);
	return space;
}

/* What the kernel says of one of our own, of the socket that it stands for. */
static void own_apply(struct pollfd *app, const struct pollfd *own)
{
	if (own->events & WRITABLE)
		app->revents |= own->revents & POLLOUT || has_space_now(app->fd)
					? (short)(app->events & (POLLOUT | POLLWRNORM))
					: 0;
	else
		app->revents |= own->revents & (POLLERR | POLLPRI);
}

/* Into the application's list. Returns how many are ready. */
static int wait_result(struct wait *wait)
{
	int ready = 0;

	for (nfds_t i = 0; i < wait->count; i++)
		wait->fds[i].revents = wait->real[i].revents;
	for (nfds_t i = 0; i < wait->own_count; i++) {
		wait->own_lost |= (wait->real[wait->count + i].revents & POLLNVAL) != 0;
		own_apply(&wait->fds[wait->owners[i]], &wait->real[wait->count + i]);
	}
	for (nfds_t i = 0; i < wait->count; i++)
		ready += wait->fds[i].revents != 0;
	return ready;
}

static int64_t monotonic_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What is left until then, at least 0; NULL for ever. */
static const struct timespec *left_until(int64_t until_ns, struct timespec *left)
{
	int64_t left_ns = until_ns - monotonic_ns();

	if (until_ns == INT64_MAX)
		return NULL;
	if (left_ns < 0)
		left_ns = 0;
	*left = (struct timespec){.tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000};
	return left;
}

/* One wait, and whether it ended before its time: for space only in slices. */
static int slice_wait(struct wait *wait, int64_t until_ns, const sigset_t *signals, bool *early)
{
	int64_t slice_until_ns = wait->blocked ? monotonic_ns() + SLICE_NS : INT64_MAX;
	struct timespec left;

	*early = slice_until_ns < until_ns;
	return next_ppoll(wait->real, wait->count + wait->own_count,
			  left_until(*early ? slice_until_ns : until_ns, &left), signals);
}

/* Nothing happened. A successor of a dead ktsnd gets the ring back here, also from those that ask again and again
 * without waiting. */
static void nothing_came(const struct wait *wait)
{
	struct session *session = wait->blocked ? session_existing() : NULL;

	if (session)
		session_check(session, wait->clock, true);
	for (nfds_t i = 0; i < wait->count; i++)
		wait->fds[i].revents = 0;
}

/* ktsnd wakes whenever something was released: that may not be enough for this socket, which waits on. */
static int wait_run(struct wait *wait, int64_t until_ns, const sigset_t *signals)
{
	for (;;) {
		bool early, something;
		int ready;

		wait_fill(wait);
		ready = slice_wait(wait, until_ns, signals, &early);
		if (ready < 0)
			return ready;
		something = ready > 0;
		if (something)
			ready = wait_result(wait);
		else
			nothing_came(wait);
		if (ready || !(early || something))
			return ready;
	}
}

static int64_t until_of(const struct timespec *timeout)
{
	int64_t timeout_ns;

	if (!timeout || __builtin_mul_overflow((int64_t)timeout->tv_sec, 1000000000, &timeout_ns) ||
	    __builtin_add_overflow(timeout_ns, (int64_t)timeout->tv_nsec + monotonic_ns(), &timeout_ns))
		return INT64_MAX;
	return timeout_ns;
}

static int timed_poll(struct pollfd *fds, nfds_t count, int64_t until_ns, const sigset_t *signals)
{
	uint8_t on_stack[ON_STACK * EACH_BYTES] __attribute__((aligned(sizeof(nfds_t))));
	struct wait wait = {.fds = fds, .count = count};
	uint8_t *memory = on_stack;
	size_t bytes = count * EACH_BYTES;
	long mapped = 0;
	int result;

	if (count > ON_STACK) {
		mapped = kernel_call(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
		if (mapped < 0 && mapped > -4096) {
			errno = ENOMEM;
			return -1;
		}
		memory = (uint8_t *)mapped;
	}
	wait.owners = (nfds_t *)memory;
	wait.real = (struct pollfd *)(wait.owners + OWN * count);
	result = wait_run(&wait, until_ns, signals);
	if (mapped) {
		int saved = errno;

		(void)kernel_call(SYS_munmap, mapped, bytes);
		errno = saved;
	}
	return result;
}

static int timed_poll_ms(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	struct timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L};

	return timed_poll(fds, count, until_of(timeout_ms < 0 ? NULL : &timeout), NULL);
}

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	return flows_any_polled(fds, count) ? timed_poll_ms(fds, count, timeout_ms)
					    : next_poll(fds, count, timeout_ms);
}

static bool valid(const struct timespec *timeout)
{
	return !timeout || (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 && timeout->tv_nsec < 1000000000);
}

EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals)
{
	return valid(timeout) && flows_any_polled(fds, count)
		       ? timed_poll(fds, count, until_of(timeout), signals)
		       : next_ppoll(fds, count, timeout, signals);
}

/* What programs that were compiled with _FORTIFY_SOURCE call. The C library's own checks the length, and ends the
 * program if it is wrong; it is asked first in that case. */
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t fds_bytes);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals,
		size_t fds_bytes);

EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t fds_bytes)
{
	return fds_bytes / sizeof(*fds) >= count && flows_any_polled(fds, count)
		       ? timed_poll_ms(fds, count, timeout_ms)
		       : next_poll_chk(fds, count, timeout_ms, fds_bytes);
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		       const sigset_t *signals, size_t fds_bytes)
{
	return fds_bytes / sizeof(*fds) >= count && valid(timeout) && flows_any_polled(fds, count)
		       ? timed_poll(fds, count, until_of(timeout), signals)
		       : next_ppoll_chk(fds, count, timeout, signals, fds_bytes);
}
