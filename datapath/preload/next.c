/* SPDX-License-Identifier: Apache-2.0 */
#include "next.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Weak: a program may run on a C library that does not offer it to us. Not <dlfcn.h>'s declaration,
 * which is not weak. */
extern void *dlsym(void *handle, const char *name) __attribute__((weak));
#define HANDLE_NEXT ((void *)-1L) /* RTLD_NEXT, the same in glibc and musl */

/* The same for fork, which must run the handlers of the C library: glibc's other name for it. */
extern pid_t __fork(void) __attribute__((weak));

enum next_call {
	SOCKET,
	SETSOCKOPT,
	GETSOCKOPT,
	BIND,
	CONNECT,
	CLOSE,
	DUP,
	DUP2,
	DUP3,
	FCNTL,
	FCNTL64,
	CLOSE_RANGE,
	FORK,
	SENDMSG,
	SENDMMSG,
	CALLS,
};

static const char *const names[CALLS] = {
	[SOCKET] = "socket",
	[SETSOCKOPT] = "setsockopt",
	[GETSOCKOPT] = "getsockopt",
	[BIND] = "bind",
	[CONNECT] = "connect",
	[CLOSE] = "close",
	[DUP] = "dup",
	[DUP2] = "dup2",
	[DUP3] = "dup3",
	[FCNTL] = "fcntl",
	[FCNTL64] = "fcntl64",
	[CLOSE_RANGE] = "close_range",
	[FORK] = "fork",
	[SENDMSG] = "sendmsg",
	[SENDMMSG] = "sendmmsg",
};

static void *functions[CALLS];

/* Before main and before any thread; calls that come earlier, from other libraries' constructors, are
 * served by the system call. */
__attribute__((constructor)) static void look_up_all(void)
{
	if (!dlsym)
		return;
	for (int i = 0; i < CALLS; i++)
		functions[i] = dlsym(HANDLE_NEXT, names[i]);
}

int next_socket(int domain, int type, int protocol)
{
	int (*next)(int, int, int) = functions[SOCKET];

	return next ? next(domain, type, protocol) : (int)syscall(SYS_socket, domain, type, protocol);
}

int next_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes)
{
	int (*next)(int, int, int, const void *, socklen_t) = functions[SETSOCKOPT];

	return next ? next(fd, level, option, value, bytes)
		    : (int)syscall(SYS_setsockopt, fd, level, option, value, bytes);
}

int next_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
	int (*next)(int, int, int, void *, socklen_t *) = functions[GETSOCKOPT];

	return next ? next(fd, level, option, value, bytes)
		    : (int)syscall(SYS_getsockopt, fd, level, option, value, bytes);
}

int next_bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
	int (*next)(int, const struct sockaddr *, socklen_t) = functions[BIND];

	return next ? next(fd, address, bytes) : (int)syscall(SYS_bind, fd, address, bytes);
}

int next_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
	int (*next)(int, const struct sockaddr *, socklen_t) = functions[CONNECT];

	return next ? next(fd, address, bytes) : (int)syscall(SYS_connect, fd, address, bytes);
}

int next_close(int fd)
{
	int (*next)(int) = functions[CLOSE];

	return next ? next(fd) : (int)syscall(SYS_close, fd);
}

int next_dup(int fd)
{
	int (*next)(int) = functions[DUP];

	return next ? next(fd) : (int)syscall(SYS_dup, fd);
}

/* The kernel's dup3 refuses what dup2 does for equal numbers: nothing, if the descriptor is open. */
static int dup2_call(int from, int to)
{
	if (from == to)
		return syscall(SYS_fcntl, from, F_GETFD) < 0 ? -1 : to;
	return (int)syscall(SYS_dup3, from, to, 0);
}

int next_dup2(int from, int to)
{
	int (*next)(int, int) = functions[DUP2];

	return next ? next(from, to) : dup2_call(from, to);
}

int next_dup3(int from, int to, int flags)
{
	int (*next)(int, int, int) = functions[DUP3];

	return next ? next(from, to, flags) : (int)syscall(SYS_dup3, from, to, flags);
}

int next_fcntl(int fd, int command, void *argument)
{
	int (*next)(int, int, ...) = functions[FCNTL];

	return next ? next(fd, command, argument) : (int)syscall(SYS_fcntl, fd, command, argument);
}

int next_fcntl64(int fd, int command, void *argument)
{
	int (*next)(int, int, ...) = functions[FCNTL64];

	return next ? next(fd, command, argument) : (int)syscall(SYS_fcntl, fd, command, argument);
}

int next_close_range(unsigned int first, unsigned int last, int flags)
{
	int (*next)(unsigned int, unsigned int, int) = functions[CLOSE_RANGE];

	return next ? next(first, last, flags) : (int)syscall(SYS_close_range, first, last, flags);
}

pid_t next_fork(void)
{
	pid_t (*next)(void) = functions[FORK];

	if (next)
		return next();
	return __fork ? __fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0L, 0L, 0L, 0L);
}

ssize_t next_sendmsg(int fd, const struct msghdr *message, int flags)
{
	ssize_t (*next)(int, const struct msghdr *, int) = functions[SENDMSG];

	return next ? next(fd, message, flags) : (ssize_t)syscall(SYS_sendmsg, fd, message, flags);
}

int next_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	int (*next)(int, struct mmsghdr *, unsigned int, int) = functions[SENDMMSG];

	return next ? next(fd, messages, count, flags)
		    : (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
}
