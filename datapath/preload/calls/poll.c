/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poll and ppoll. Next to a timed socket in the list its error notifier is polled; and in place of POLLOUT,
 * which the kernel would grant at any time, its space notifier. Without a timed socket the call is the next
 * function. For a socket with a receive ring (receive/inbox.h) the ring's descriptor is polled as well.
 */
#include "clock.h"
#include "error_notifier.h"
#include "export.h"
#include "flow_end.h"
#include "inbox_open.h"
#include "inbox_read.h"
#include "liveness.h"
#include "memory.h"
#include "next.h"
#include "space_notifier.h"

#include <poll.h>
#include <string.h>

enum {
	WRITABLE = POLLOUT | POLLWRNORM | POLLWRBAND,
	/* Descriptors of a call for which no memory is mapped. */
	ON_STACK = 64,
	NOTIFIERS = 3, /* notifiers of each socket: error, space, receive ring */
	/* Interval of checks for the successor of a dead ktsnd. */
	SLICE_NS = 100 * 1000 * 1000,
	EACH_BYTES =
		(1 + NOTIFIERS) * sizeof(struct pollfd) + NOTIFIERS * sizeof(nfds_t) + sizeof(struct inbox *),
	READABLE = POLLIN | POLLRDNORM,
};

/* A call, with the list that is polled instead of the application's. */
struct wait {
	struct pollfd *fds; /* the application's */
	nfds_t count;
	struct pollfd *real; /* a copy, then the notifiers */
	nfds_t *owners;      /* for each notifier: the index of its socket in `fds` */
	nfds_t notifier_count;
	struct inbox **inboxes; /* acquired, and not asleep: their programs are woken */
	nfds_t inbox_count;
	bool blocked;          /* a socket has no space */
	enum ktsn_clock clock; /* of that socket */
	bool notifier_lost;    /* the application closed a notifier: poll without notifiers */
	bool error_kept;       /* for the next receiving call: inbox_error_keep() */
};

static void notifier_add(struct wait *wait, nfds_t owner, int fd, short events)
{
	if (fd < 0)
		return;
	wait->real[wait->count + wait->notifier_count] = (struct pollfd){.fd = fd, .events = events};
	wait->owners[wait->notifier_count++] = owner;
}

static void writable_replace(struct wait *wait, struct session *session, struct flow *flow, nfds_t at)
{
	int space_fd;

	if (!(wait->real[at].events & WRITABLE) || space_available(session, flow))
		return;
	space_fd = space_notifier_fd(flow);
	if (space_fd < 0)
		return;
	space_await(session, flow);
	wait->real[at].events &= (short)~WRITABLE;
	notifier_add(wait, at, space_fd, POLLOUT);
	wait->blocked = true;
	wait->clock = flow->clock;
}

static void flow_add(struct wait *wait, struct session *session, nfds_t at)
{
	struct flow *flow = wait->real[at].fd < 0 ? NULL : flow_acquire(wait->real[at].fd);

	if (!flow)
		return;
	if (!flow->left_to_kernel) {
		notifier_add(wait, at, error_notifier_fd(flow), wait->real[at].events & POLLPRI);
		if (session && flow->number_session == session->number)
			writable_replace(wait, session, flow, at);
	}
	flow_put(flow);
}

static void inbox_add(struct wait *wait, nfds_t at)
{
	struct inbox *inbox = wait->fds[at].events & READABLE ? inbox_of(wait->fds[at].fd) : NULL;

	if (!inbox)
		return;
	/* Before the kernel checks whether the ring holds a datagram. */
	atomic_fetch_add_explicit(inbox->sleeping, 1, memory_order_seq_cst);
	wait->inboxes[wait->inbox_count++] = inbox;
	wait->error_kept |= inbox_error_kept(inbox);
	notifier_add(wait, at, inbox->ring_fd, (short)(wait->fds[at].events & READABLE));
}

static void inboxes_give_back(struct wait *wait)
{
	while (wait->inbox_count) {
		struct inbox *inbox = wait->inboxes[--wait->inbox_count];

		atomic_fetch_sub_explicit(inbox->sleeping, 1, memory_order_relaxed);
		inbox_put(inbox);
	}
}

static void wait_fill(struct wait *wait)
{
	struct session *session = session_existing();

	memcpy(wait->real, wait->fds, wait->count * sizeof(*wait->fds));
	wait->notifier_count = 0;
	wait->blocked = wait->error_kept = false;
	for (nfds_t i = 0; i < wait->count && !wait->notifier_lost; i++)
		flow_add(wait, session, i);
	for (nfds_t i = 0; inboxes_wanted() && i < wait->count && !wait->notifier_lost; i++)
		inbox_add(wait, i);
}

/* Space may have come before ktsnd has notified. */
static bool has_space_now(int fd)
{
	struct session *session = session_existing();
	struct flow *flow = session ? flow_acquire(fd) : NULL;
	bool space;

	if (!flow)
		return true;
	space = flow->number_session != session->number || space_available(session, flow);
	flow_put(flow);
	return space;
}

/* Translates the events of a notifier into those of its socket. */
static void notifier_apply(struct pollfd *app, const struct pollfd *notifier)
{
	if (notifier->events & READABLE)
		app->revents |= notifier->revents & app->events & READABLE;
	else if (notifier->events & WRITABLE)
		app->revents |= notifier->revents & POLLOUT || has_space_now(app->fd)
					? (short)(app->events & (POLLOUT | POLLWRNORM))
					: 0;
	else
		app->revents |= notifier->revents & (POLLERR | POLLPRI);
}

static bool has_kept_error(int fd)
{
	bool looked, kept;
	struct inbox *inbox = inbox_acquire(fd, &looked);

	if (!inbox)
		return false;
	kept = inbox_error_kept(inbox);
	inbox_put(inbox);
	return kept;
}

/* Returns the number of ready descriptors. */
static int errors_note(struct pollfd *fds, nfds_t count, bool error_kept)
{
	int ready = 0;
	bool error = false;

	for (nfds_t i = 0; i < count; i++) {
		if (error_kept && has_kept_error(fds[i].fd))
			fds[i].revents |= POLLERR;
		error |= (fds[i].revents & POLLERR) != 0;
		ready += fds[i].revents != 0;
	}
	if (error)
		inbox_error_reported();
	return ready;
}

/* Fills in the application's list. Returns the number of ready descriptors. */
static int wait_result(struct wait *wait)
{

	for (nfds_t i = 0; i < wait->count; i++)
		wait->fds[i].revents = wait->real[i].revents;
	for (nfds_t i = 0; i < wait->notifier_count; i++) {
		wait->notifier_lost |= (wait->real[wait->count + i].revents & POLLNVAL) != 0;
		notifier_apply(&wait->fds[wait->owners[i]], &wait->real[wait->count + i]);
	}
	return errors_note(wait->fds, wait->count, wait->error_kept);
}

/* Returns the time until then, at least 0; NULL without a timeout. */
static const struct timespec *left_until(int64_t until_ns, struct timespec *left)
{
	int64_t left_ns = until_ns - monotonic_ns();

	if (until_ns == INT64_MAX)
		return NULL;
	if (left_ns < 0)
		left_ns = 0;
	*left = timespec_of_ns(left_ns);
	return left;
}

/* Polls once; for a slice only while a socket waits for space, or ktsnd was found gone. *early: the slice
 * ends before the call does. */
static int slice_wait(struct wait *wait, int64_t until_ns, const sigset_t *signals, bool *early)
{
	int64_t slice_until_ns = wait->blocked || session_is_lost() ? monotonic_ns() + SLICE_NS : INT64_MAX;
	struct timespec left;

	if (wait->error_kept)
		slice_until_ns = 0;

	*early = slice_until_ns < until_ns;
	return next_ppoll(wait->real, wait->count + wait->notifier_count,
			  left_until(*early ? slice_until_ns : until_ns, &left), signals);
}

/* A slice passed without events. While a socket waits for space, this hands the ring to the successor of a
 * dead ktsnd, even for an application that polls without waiting. */
static void nothing_came(const struct wait *wait, bool early)
{
	struct session *session = wait->blocked || early ? session_existing() : NULL;

	if (session)
		session_check(session, wait->clock, true);
	for (nfds_t i = 0; i < wait->count; i++)
		wait->fds[i].revents = 0;
}

/* ktsnd notifies whenever a slot or buffer was released. That may not be enough space for the socket,
 * which waits on. */
static int wait_run(struct wait *wait, int64_t until_ns, const sigset_t *signals)
{
	for (;;) {
		bool early, something;
		int ready;

		wait_fill(wait);
		ready = slice_wait(wait, until_ns, signals, &early);
		inboxes_give_back(wait);
		if (ready < 0)
			return ready;
		something = ready > 0 || wait->error_kept;
		if (something)
			ready = wait_result(wait);
		else
			nothing_came(wait, early);
		if (ready || !(early || something))
			return ready;
	}
}

static int timed_poll(struct pollfd *fds, nfds_t count, int64_t until_ns, const sigset_t *signals)
{
	uint8_t on_stack[ON_STACK * EACH_BYTES] __attribute__((aligned(sizeof(nfds_t))));
	struct wait wait = {.fds = fds, .count = count};
	void *memory = on_stack;
	size_t bytes = count * EACH_BYTES;
	int result;

	if (count > ON_STACK && memory_map(bytes, &memory))
		return (int)errno_return(-ENOMEM);
	wait.owners = (nfds_t *)memory;
	wait.inboxes = (struct inbox **)(wait.owners + NOTIFIERS * count);
	wait.real = (struct pollfd *)(wait.inboxes + count);
	result = wait_run(&wait, until_ns, signals);
	if (count > ON_STACK)
		memory_unmap(memory, bytes);
	return result;
}

static int timed_poll_ms(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	struct timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L};

	return timed_poll(fds, count, monotonic_deadline_ns(timeout_ms < 0 ? NULL : &timeout), NULL);
}

/* Returns whether any of them is a timed socket, or may have a receive ring. */
static bool any_concerned(struct pollfd *fds, nfds_t count)
{
	struct inbox *inbox = NULL;

	if (flows_any_polled(fds, count))
		return true;
	for (nfds_t i = 0; inboxes_wanted() && i < count && !inbox; i++)
		inbox = fds[i].events & READABLE ? inbox_of(fds[i].fd) : NULL;
	if (inbox)
		inbox_put(inbox);
	return inbox != NULL;
}

/* Handles a call that the kernel got unchanged, because no socket in it waits for input. */
static int noted(struct pollfd *fds, nfds_t count, int ready)
{
	if (ready > 0 && inboxes_wanted())
		(void)errors_note(fds, count, false);
	return ready;
}

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	return any_concerned(fds, count) ? timed_poll_ms(fds, count, timeout_ms)
					 : noted(fds, count, next_poll(fds, count, timeout_ms));
}

static bool valid(const struct timespec *timeout)
{
	return !timeout || (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 && timeout->tv_nsec < 1000000000);
}

EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals)
{
	return valid(timeout) && any_concerned(fds, count)
		       ? timed_poll(fds, count, monotonic_deadline_ns(timeout), signals)
		       : noted(fds, count, next_ppoll(fds, count, timeout, signals));
}

/* Programs that were compiled with _FORTIFY_SOURCE call these. The C library's own function ends the program
 * when the list exceeds fds_bytes. */
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t fds_bytes);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals,
		size_t fds_bytes);

EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t fds_bytes)
{
	return fds_bytes / sizeof(*fds) >= count && any_concerned(fds, count)
		       ? timed_poll_ms(fds, count, timeout_ms)
		       : noted(fds, count, next_poll_chk(fds, count, timeout_ms, fds_bytes));
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		       const sigset_t *signals, size_t fds_bytes)
{
	return fds_bytes / sizeof(*fds) >= count && valid(timeout) && any_concerned(fds, count)
		       ? timed_poll(fds, count, monotonic_deadline_ns(timeout), signals)
		       : noted(fds, count, next_ppoll_chk(fds, count, timeout, signals, fds_bytes));
}
