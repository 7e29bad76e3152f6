/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select and pselect of timed sockets, and of those with a receive ring: as poll, because the descriptor of a
 * notifier need not fit into a set. Everything else goes to the C library.
 */
#include "clock.h"
#include "export.h"
#include "flow_table.h"
#include "inbox_open.h"
#include "memory.h"
#include "next.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/select.h>

/* Events that make a descriptor ready in each set (fs/select.c). */
enum {
	SET_IN = POLLRDNORM | POLLRDBAND | POLLIN | POLLHUP | POLLERR | POLLNVAL,
	SET_OUT = POLLWRBAND | POLLWRNORM | POLLOUT | POLLERR | POLLNVAL,
	SET_EXCEPT = POLLPRI | POLLNVAL,
	WORD_BITS = (int)(8 * sizeof(unsigned long)),
};

struct sets {
	fd_set *in, *out, *except;
};

/* Words, not FD_ISSET: programs may have made their sets larger than FD_SETSIZE. */
static bool has(const fd_set *set, int fd)
{
	const unsigned long *words = (const unsigned long *)set;

	return set && words[fd / WORD_BITS] >> (fd % WORD_BITS) & 1;
}

static void put(fd_set *set, int fd, bool member)
{
	unsigned long *word, bit = 1UL << (fd % WORD_BITS);

	if (!set)
		return;
	word = (unsigned long *)set + fd / WORD_BITS;
	*word = member ? *word | bit : *word & ~bit;
}

static bool wanted(const struct sets *sets, int fd)
{
	return has(sets->in, fd) || has(sets->out, fd) || has(sets->except, fd);
}

/* Returns the descriptors from 64 * word on that are in one of the sets, one bit each. */
static unsigned long wanted_word(const struct sets *sets, int word, int count)
{
	unsigned long bits = 0;
	const fd_set *const all[] = {sets->in, sets->out, sets->except};

	for (int i = 0; i < 3; i++)
		if (all[i])
			bits |= ((const unsigned long *)all[i])[word];
	if (count - word * WORD_BITS < WORD_BITS)
		bits &= (1UL << (count - word * WORD_BITS)) - 1;
	return bits;
}

static bool has_inbox(const struct sets *sets, int fd)
{
	struct inbox *inbox = has(sets->in, fd) ? inbox_of(fd) : NULL;

	if (inbox)
		inbox_put(inbox);
	return inbox != NULL;
}

static bool any_concerned(const struct sets *sets, int count)
{
	if (!flows_any() && !inboxes_wanted())
		return false;
	for (int word = 0; word * WORD_BITS < count; word++)
		for (unsigned long bits = wanted_word(sets, word, count); bits; bits &= bits - 1)
			if (flow_known(word * WORD_BITS + __builtin_ctzl(bits)) ||
			    has_inbox(sets, word * WORD_BITS + __builtin_ctzl(bits)))
				return true;
	return false;
}

static int members_count(const struct sets *sets, int count)
{
	int members = 0;

	for (int word = 0; word * WORD_BITS < count; word++)
		for (unsigned long bits = wanted_word(sets, word, count); bits; bits &= bits - 1)
			members++;
	return members;
}

static short events_of(const struct sets *sets, int fd)
{
	return (short)((has(sets->in, fd) ? POLLIN | POLLRDNORM | POLLRDBAND : 0) |
		       (has(sets->out, fd) ? POLLOUT | POLLWRNORM | POLLWRBAND : 0) |
		       (has(sets->except, fd) ? POLLPRI : 0));
}

static bool result_put(fd_set *set, int fd, short revents, int ready_if)
{
	bool ready = has(set, fd) && revents & ready_if;

	put(set, fd, ready);
	return ready;
}

/* Returns the number of set bits, or -1: a member is no descriptor. */
static int result(const struct sets *sets, const struct pollfd *fds, int members)
{
	int ready = 0;

	for (int i = 0; i < members; i++) {
		if (fds[i].revents & POLLNVAL) {
			errno = EBADF;
			return -1;
		}
	}
	for (int i = 0; i < members; i++) {
		ready += result_put(sets->in, fds[i].fd, fds[i].revents, SET_IN);
		ready += result_put(sets->out, fds[i].fd, fds[i].revents, SET_OUT);
		ready += result_put(sets->except, fds[i].fd, fds[i].revents, SET_EXCEPT);
	}
	return ready;
}

static int as_poll(const struct sets *sets, int count, const struct timespec *timeout,
		   const sigset_t *signals)
{
	int members = members_count(sets, count);
	size_t bytes = (size_t)members * sizeof(struct pollfd);
	void *memory;
	struct pollfd *fds;
	int filled = 0, ready;

	if (memory_map(bytes, &memory))
		return (int)errno_return(-ENOMEM);
	fds = memory;
	for (int fd = 0; fd < count && filled < members; fd++)
		if (wanted(sets, fd))
			fds[filled++] = (struct pollfd){.fd = fd, .events = events_of(sets, fd)};
	ready = ppoll(fds, (nfds_t)filled, timeout, signals);
	if (ready >= 0)
		ready = result(sets, fds, filled);
	memory_unmap(memory, bytes);
	return ready;
}

/* glibc only. */
const char *gnu_get_libc_version(void) __attribute__((weak));

/* The kernel returns the rest of the timeout, and musl hides it. */
static void timeout_reduce(struct timeval *timeout, int64_t began_ns)
{
	int64_t left_us;

	if (!timeout || !gnu_get_libc_version)
		return;
	left_us = (int64_t)timeout->tv_sec * 1000000 + timeout->tv_usec - (monotonic_ns() - began_ns) / 1000;
	if (left_us < 0)
		left_us = 0;
	*timeout = (struct timeval){.tv_sec = left_us / 1000000, .tv_usec = left_us % 1000000};
}

static bool valid(const struct timeval *timeout)
{
	return !timeout || (timeout->tv_sec >= 0 && timeout->tv_usec >= 0);
}

EXPORT int select(int count, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
	struct sets sets = {in, out, except};
	struct timespec wait;
	int64_t began_ns;
	int ready;

	if (!valid(timeout) || !any_concerned(&sets, count))
		return next_select(count, in, out, except, timeout);
	began_ns = monotonic_ns();
	if (timeout)
		wait = (struct timespec){.tv_sec = timeout->tv_sec + timeout->tv_usec / 1000000,
					 .tv_nsec = timeout->tv_usec % 1000000 * 1000};
	ready = as_poll(&sets, count, timeout ? &wait : NULL, NULL);
	timeout_reduce(timeout, began_ns);
	return ready;
}

EXPORT int pselect(int count, fd_set *in, fd_set *out, fd_set *except, const struct timespec *timeout,
		   const sigset_t *signals)
{
	struct sets sets = {in, out, except};

	if (!any_concerned(&sets, count))
		return next_pselect(count, in, out, except, timeout, signals);
	return as_poll(&sets, count, timeout, signals);
}
