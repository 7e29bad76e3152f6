/* SPDX-License-Identifier: Apache-2.0 */
#include "descriptors.h"

#include "connect.h"
#include "epoll_members.h"
#include "export.h"
#include "flow_end.h"
#include "inbox_open.h"
#include "kernel.h"
#include "next.h"
#include "process_owner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <stdarg.h>
#include <sys/resource.h>

void descriptor_gone(int fd)
{
	struct flow *flow;

	if (inboxes_wanted() && inbox_known(fd) && process_is_owner())
		inbox_fd_gone(fd);
	/* Two loads for a descriptor that never asked for SO_TXTIME. */
	if (!flow_known(fd) || !process_is_owner())
		return;
	flow = flow_remove(fd);
	if (!flow)
		return;
	epoll_members_fd_gone(flow, fd);
	flow_put(flow);
}

void descriptor_copied(int from, int to)
{
	struct flow *flow;

	if (inboxes_wanted() && inbox_known(from) && process_is_owner())
		inbox_fd_copied(from, to);
	if (!flow_known(from) || !process_is_owner())
		return;
	flow = flow_acquire(from);
	if (!flow)
		return;
	(void)flow_share(flow, to);
	flow_put(flow);
}

struct range {
	unsigned int first;
	unsigned int last;
};

static bool gone_if_within(int fd, struct flow *flow, void *context)
{
	const struct range *range = context;

	if ((unsigned int)fd >= range->first && (unsigned int)fd <= range->last)
		descriptor_gone(fd);
	flow_put(flow);
	return false;
}

void descriptors_gone(unsigned int first, unsigned int last)
{
	struct range range = {.first = first, .last = last};

	flow_each(gone_if_within, &range);
	for (unsigned int fd = first; inboxes_wanted() && fd <= last && fd < INBOX_DESCRIPTORS; fd++)
		if (inbox_known((int)fd) && process_is_owner())
			inbox_fd_gone((int)fd);
	flows_end();
}

EXPORT int close(int fd)
{
	/* Some programs close all descriptors, including those that they never opened. */
	if (session_fd_is_internal(fd)) {
		errno = EBADF;
		return -1;
	}
	descriptor_gone(fd);
	return next_close(fd);
}

EXPORT int dup(int fd)
{
	int copy = next_dup(fd);

	if (copy >= 0) {
		descriptor_gone(copy);
		descriptor_copied(fd, copy);
	}
	return copy;
}

/* The kernel closes the target and copies in one step, and leaves the target unchanged when it refuses the
 * call. libktsn does not give up its own descriptors. */
static int copy_prepare(int from, int to, int flags)
{
	if (session_fd_is_internal(to)) {
		errno = EBUSY;
		return -1;
	}
	if (from == to || (flags & ~O_CLOEXEC) || !(flow_known(to) || (inboxes_wanted() && inbox_known(to))))
		return 0;
	if (next_fcntl(from, F_GETFD, NULL) < 0)
		return -1;
	descriptor_gone(to);
	return 0;
}

EXPORT int dup2(int from, int to)
{
	int copy = copy_prepare(from, to, 0) ? -1 : next_dup2(from, to);

	if (copy >= 0 && from != to)
		descriptor_copied(from, to);
	return copy;
}

EXPORT int dup3(int from, int to, int flags)
{
	int copy = copy_prepare(from, to, flags) ? -1 : next_dup3(from, to, flags);

	if (copy < 0)
		return copy;
	if (flags & ~O_CLOEXEC)
		descriptor_gone(to); /* musl ignores flags that the kernel refuses */
	descriptor_copied(from, to);
	return copy;
}

/* Follows changes of state that all descriptors of the socket share. */
static void status_changed(int fd)
{
	struct inbox *inbox = inbox_of(fd);

	if (!inbox)
		return;
	atomic_store_explicit(&inbox->looked_ns, 0, memory_order_relaxed);
	inbox_put(inbox);
}

static int fcntl_followed(int fd, int command, int result)
{
	if (result >= 0 && command == F_SETFL)
		status_changed(fd);
	if (result >= 0 && (command == F_DUPFD || command == F_DUPFD_CLOEXEC)) {
		descriptor_gone(result);
		descriptor_copied(fd, result);
	}
	return result;
}

/* The third argument is an int, a pointer or absent; read as a pointer, all of its bits are passed on. */
EXPORT int fcntl(int fd, int command, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return fcntl_followed(fd, command, next_fcntl(fd, command, argument));
}

EXPORT int fcntl64(int fd, int command, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return fcntl_followed(fd, command, next_fcntl64(fd, command, argument));
}

/* Closes the range, except libktsn's own descriptors. */
static int range_close(unsigned int first, unsigned int last, int flags)
{
	int internal_fd;

	while ((internal_fd = session_next_internal_fd((int)first)) >= 0 &&
	       (unsigned int)internal_fd <= last) {
		if ((unsigned int)internal_fd > first &&
		    next_close_range(first, (unsigned int)internal_fd - 1, flags))
			return -1;
		first = (unsigned int)internal_fd + 1;
	}
	return first <= last ? next_close_range(first, last, flags) : 0;
}

EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	/* The call closes nothing, or the kernel refuses it. */
	if (first > last || first > INT_MAX || flags & ~(int)CLOSE_RANGE_UNSHARE)
		return next_close_range(first, last, flags);
	descriptors_gone(first, last);
	return range_close(first, last, flags);
}

/* glibc only. Kernels before Linux 5.9 have no close_range. */
EXPORT void closefrom(int lowest)
{
	unsigned int first = lowest < 0 ? 0 : (unsigned int)lowest;
	struct rlimit limit = {0};

	descriptors_gone(first, UINT_MAX);
	if (range_close(first, UINT_MAX, 0) == 0 ||
	    kernel_call(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit) < 0)
		return;
	for (unsigned int fd = first; fd < limit.rlim_cur; fd++)
		(void)close((int)fd);
}
