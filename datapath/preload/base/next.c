/* SPDX-License-Identifier: Apache-2.0 */
#include "next.h"

#include "kernel.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>

/* Weak: a program may run on a C library that does not offer it to us. Not <dlfcn.h>'s declaration,
 * which is not weak. */
extern void *dlsym(void *handle, const char *name) __attribute__((weak));
extern char *dlerror(void) __attribute__((weak));
#define HANDLE_NEXT ((void *)-1L) /* RTLD_NEXT, the same in glibc and musl */

/* The same for fork, which must run the handlers of the C library: glibc's internal name. */
extern pid_t __fork(void) __attribute__((weak));

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

static void *look_up(const char *symbol)
{
	void *function = dlsym ? dlsym(HANDLE_NEXT, symbol) : NULL;

	/* musl lacks some of them. Keep the failed look-up out of the program's dlerror(). */
	if (dlerror)
		(void)dlerror();
	return function;
}

/* Runs before main and before any thread; earlier calls, from constructors of other libraries, use the
 * system call. */
#define LOOK_UP(name, symbol)                                                                                \
	static void *name##_function;                                                                        \
	__attribute__((constructor)) static void name##_look_up(void)                                        \
	{                                                                                                    \
		name##_function = look_up(symbol);                                                           \
	}

/* NOLINTBEGIN(bugprone-macro-parentheses): types and lists of parameters */
/* Defines next_NAME: it calls the function with these arguments, or returns `otherwise`. */
#define NEXT_AS(type, name, symbol, parameters, arguments, otherwise)                                        \
	LOOK_UP(name, symbol)                                                                                \
	type next_##name parameters                                                                          \
	{                                                                                                    \
		type(*next) parameters = name##_function;                                                    \
                                                                                                             \
		return next ? next arguments : (type)(otherwise);                                            \
	}
#define NEXT_OR(type, name, parameters, arguments, otherwise)                                                \
	NEXT_AS(type, name, #name, parameters, arguments, otherwise)

/* The same where the system call has the arguments of the function. */
#define NEXT(type, name, parameters, number, ...)                                                            \
	NEXT_OR(type, name, parameters, (__VA_ARGS__), errno_return(kernel_call(number, __VA_ARGS__)))
/* NOLINTEND(bugprone-macro-parentheses) */

NEXT(int, socket, (int domain, int type, int protocol), SYS_socket, domain, type, protocol)
NEXT(int, setsockopt, (int fd, int level, int option, const void *value, socklen_t bytes), SYS_setsockopt, fd,
     level, option, value, bytes)
NEXT(int, getsockopt, (int fd, int level, int option, void *value, socklen_t *bytes), SYS_getsockopt, fd,
     level, option, value, bytes)
NEXT(int, bind, (int fd, const struct sockaddr *address, socklen_t bytes), SYS_bind, fd, address, bytes)
NEXT(int, connect, (int fd, const struct sockaddr *address, socklen_t bytes), SYS_connect, fd, address, bytes)
NEXT(int, close, (int fd), SYS_close, fd)
NEXT(int, dup, (int fd), SYS_dup, fd)

/* The kernel's dup3 refuses equal numbers, for which dup2 does nothing if the descriptor is open. */
static int dup2_call(int from, int to)
{
	if (from == to)
		return errno_return(kernel_call(SYS_fcntl, from, F_GETFD)) < 0 ? -1 : to;
	return (int)errno_return(kernel_call(SYS_dup3, from, to, 0));
}

NEXT_OR(int, dup2, (int from, int to), (from, to), dup2_call(from, to))
NEXT(int, dup3, (int from, int to, int flags), SYS_dup3, from, to, flags)

LOOK_UP(fcntl, "fcntl")
int next_fcntl(int fd, int command, void *argument)
{
	int (*next)(int, int, ...) = fcntl_function;

	return next ? next(fd, command, argument)
		    : (int)errno_return(kernel_call(SYS_fcntl, fd, command, argument));
}

LOOK_UP(fcntl64, "fcntl64")
int next_fcntl64(int fd, int command, void *argument)
{
	int (*next)(int, int, ...) = fcntl64_function;

	return next ? next(fd, command, argument)
		    : (int)errno_return(kernel_call(SYS_fcntl, fd, command, argument));
}

NEXT(int, close_range, (unsigned int first, unsigned int last, int flags), SYS_close_range, first, last,
     flags)

LOOK_UP(fork, "fork")
pid_t next_fork(void)
{
	pid_t (*next)(void) = fork_function;

	if (next)
		return next();
	return __fork ? __fork() : (pid_t)errno_return(kernel_call(SYS_clone, SIGCHLD, 0L, 0L, 0L, 0L));
}

NEXT(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), SYS_sendmsg, fd, message, flags)
NEXT(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned int count, int flags), SYS_sendmmsg, fd,
     messages, count, flags)
NEXT_OR(ssize_t, send, (int fd, const void *data, size_t bytes, int flags), (fd, data, bytes, flags),
	errno_return(kernel_call(SYS_sendto, fd, data, bytes, flags, NULL, 0)))
NEXT(ssize_t, sendto,
     (int fd, const void *data, size_t bytes, int flags, const struct sockaddr *to, socklen_t to_bytes),
     SYS_sendto, fd, data, bytes, flags, to, to_bytes)
NEXT(ssize_t, write, (int fd, const void *data, size_t bytes), SYS_write, fd, data, bytes)
NEXT(ssize_t, writev, (int fd, const struct iovec *pieces, int count), SYS_writev, fd, pieces, count)
NEXT(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), SYS_recvmsg, fd, message, flags)
NEXT(int, recvmmsg,
     (int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout),
     SYS_recvmmsg, fd, messages, count, flags, timeout)
NEXT_OR(ssize_t, recv, (int fd, void *data, size_t bytes, int flags), (fd, data, bytes, flags),
	errno_return(kernel_call(SYS_recvfrom, fd, data, bytes, flags, NULL, NULL)))
NEXT(ssize_t, recvfrom,
     (int fd, void *data, size_t bytes, int flags, struct sockaddr *from, socklen_t *from_bytes),
     SYS_recvfrom, fd, data, bytes, flags, from, from_bytes)
NEXT_AS(ssize_t, recv_chk, "__recv_chk", (int fd, void *data, size_t bytes, size_t room_bytes, int flags),
	(fd, data, bytes, room_bytes, flags), next_recv(fd, data, bytes, flags))
NEXT_AS(ssize_t, recvfrom_chk, "__recvfrom_chk",
	(int fd, void *data, size_t bytes, size_t room_bytes, int flags, struct sockaddr *from,
	 socklen_t *from_bytes),
	(fd, data, bytes, room_bytes, flags, from, from_bytes),
	next_recvfrom(fd, data, bytes, flags, from, from_bytes))
NEXT(int, shutdown, (int fd, int how), SYS_shutdown, fd, how)

/* The kernel's size of a set of signals, which is smaller than the C library's. */
enum { SIGNALS_BYTES = 8 };

LOOK_UP(poll, "poll")
int next_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	int (*next)(struct pollfd *, nfds_t, int) = poll_function;
	struct timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L};

	return next ? next(fds, count, timeout_ms)
		    : (int)errno_return(
			      kernel_call(SYS_ppoll, fds, count, timeout_ms < 0 ? NULL : &timeout, NULL, 0));
}

LOOK_UP(ppoll, "ppoll")
int next_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals)
{
	int (*next)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *) = ppoll_function;
	struct timespec left;

	if (next)
		return next(fds, count, timeout, signals);
	/* The kernel writes the remaining time; the function does not. */
	if (timeout)
		left = *timeout;
	return (int)errno_return(
		kernel_call(SYS_ppoll, fds, count, timeout ? &left : NULL, signals, SIGNALS_BYTES));
}

NEXT_AS(int, poll_chk, "__poll_chk", (struct pollfd * fds, nfds_t count, int timeout_ms, size_t fds_bytes),
	(fds, count, timeout_ms, fds_bytes), next_poll(fds, count, timeout_ms))
NEXT_AS(int, ppoll_chk, "__ppoll_chk",
	(struct pollfd * fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals,
	 size_t fds_bytes),
	(fds, count, timeout, signals, fds_bytes), next_ppoll(fds, count, timeout, signals))
NEXT(int, select, (int count, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout), SYS_select,
     count, in, out, except, timeout)

LOOK_UP(pselect, "pselect")
int next_pselect(int count, fd_set *in, fd_set *out, fd_set *except, const struct timespec *timeout,
		 const sigset_t *signals)
{
	int (*next)(int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *) =
		pselect_function;
	struct {
		const sigset_t *signals;
		size_t bytes;
	} mask = {signals, SIGNALS_BYTES};
	struct timespec left;

	if (next)
		return next(count, in, out, except, timeout, signals);
	if (timeout)
		left = *timeout;
	return (int)errno_return(
		kernel_call(SYS_pselect6, count, in, out, except, timeout ? &left : NULL, &mask));
}

NEXT(int, epoll_ctl, (int epoll_fd, int operation, int fd, struct epoll_event *event), SYS_epoll_ctl,
     epoll_fd, operation, fd, event)
NEXT_OR(int, epoll_wait, (int epoll_fd, struct epoll_event *events, int max, int timeout_ms),
	(epoll_fd, events, max, timeout_ms),
	errno_return(kernel_call(SYS_epoll_pwait, epoll_fd, events, max, timeout_ms, NULL, 0)))
NEXT_OR(int, epoll_pwait,
	(int epoll_fd, struct epoll_event *events, int max, int timeout_ms, const sigset_t *signals),
	(epoll_fd, events, max, timeout_ms, signals),
	errno_return(kernel_call(SYS_epoll_pwait, epoll_fd, events, max, timeout_ms, signals, SIGNALS_BYTES)))
NEXT_OR(int, epoll_pwait2,
	(int epoll_fd, struct epoll_event *events, int max, const struct timespec *timeout,
	 const sigset_t *signals),
	(epoll_fd, events, max, timeout, signals),
	errno_return(kernel_call(SYS_epoll_pwait2, epoll_fd, events, max, timeout, signals, SIGNALS_BYTES)))
NEXT(ssize_t, read, (int fd, void *data, size_t bytes), SYS_read, fd, data, bytes)
NEXT_AS(ssize_t, read_chk, "__read_chk", (int fd, void *data, size_t bytes, size_t room_bytes),
	(fd, data, bytes, room_bytes), next_read(fd, data, bytes))
NEXT(ssize_t, readv, (int fd, const struct iovec *pieces, int count), SYS_readv, fd, pieces, count)

LOOK_UP(syscall, "syscall")
long next_syscall(long number, const long arguments[6])
{
	long (*next)(long, ...) = syscall_function;

	return next ? next(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
			   arguments[5])
		    : errno_return(kernel_call(number, arguments[0], arguments[1], arguments[2], arguments[3],
					       arguments[4], arguments[5]));
}

/* musl's request is an int: the same register. */
LOOK_UP(ioctl, "ioctl")
int next_ioctl(int fd, unsigned long request, void *argument)
{
	int (*next)(int, unsigned long, ...) = ioctl_function;

	return next ? next(fd, request, argument)
		    : (int)errno_return(kernel_call(SYS_ioctl, fd, request, argument));
}
