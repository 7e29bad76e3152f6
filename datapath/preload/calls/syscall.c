/* SPDX-License-Identifier: Apache-2.0 */
/*
 * syscall: notices that the process makes an io_uring, by which event loops such as libuv call epoll_ctl. Its
 * sockets give their receive rings back, which would wake no such loop. A child of vfork has an io_uring of
 * its own, and the memory of its parent, which keeps its rings.
 */
#include "epoll_record.h"
#include "export.h"
#include "inbox_open.h"
#include "next.h"
#include "process_owner.h"

#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif

/* All arguments are read, as by the C libraries; the kernel ignores those that a call does not have. */
EXPORT long syscall(long number, ...)
{
	long arguments[6], result;
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	result = next_syscall(number, arguments);
	if (number == SYS_io_uring_setup && result >= 0 && process_is_owner()) {
		epoll_unseen_set();
		inboxes_leave(KTSN_APP_RECEIVE_CLOSE_IO_URING);
	}
	return result;
}
