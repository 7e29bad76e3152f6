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
extern char *dlerror(void) __attribute__((weak));
#define HANDLE_NEXT ((void *)-1L) /* RTLD_NEXT, the same in glibc and musl */

/* The same for fork, which must run the handlers of the C library: glibc's internal name. */
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
	SEND,
	SENDTO,
	WRITE,
	WRITEV,
	RECVMSG,
	RECVMMSG,
	RECV,
	RECVFROM,
	RECV_CHK,
	RECVFROM_CHK,
	SHUTDOWN,
	POLL,
	PPOLL,
	POLL_CHK,
	PPOLL_CHK,
	SELECT,
	PSELECT,
	EPOLL_CTL,
	EPOLL_WAIT,
	EPOLL_PWAIT,
	EPOLL_PWAIT2,
	READ,
	READ_CHK,
	READV,
	IOCTL,
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
	[SEND] = "send",
	[SENDTO] = "sendto",
	[WRITE] = "write",
	[WRITEV] = "writev",
	[RECVMSG] = "recvmsg",
	[RECVMMSG] = "recvmmsg",
	[RECV] = "recv",
	[RECVFROM] = "recvfrom",
	[RECV_CHK] = "__recv_chk",
	[RECVFROM_CHK] = "__recvfrom_chk",
	[SHUTDOWN] = "shutdown",
	[POLL] = "poll",
	[PPOLL] = "ppoll",
	[POLL_CHK] = "__poll_chk",
	[PPOLL_CHK] = "__ppoll_chk",
	[SELECT] = "select",
	[PSELECT] = "pselect",
	[EPOLL_CTL] = "epoll_ctl",
	[EPOLL_WAIT] = "epoll_wait",
	[EPOLL_PWAIT] = "epoll_pwait",
	[EPOLL_PWAIT2] = "epoll_pwait2",
	[READ] = "read",
	[READ_CHK] = "__read_chk",
	[READV] = "readv",
	[IOCTL] = "ioctl",
};

static void *functions[CALLS];

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

/* Runs before main and before any thread; earlier calls, from constructors of other libraries, use the
 * system call. */
__attribute__((constructor)) static void look_up_all(void)
{
	if (!dlsym)
		return;
	for (int i = 0; i < CALLS; i++)
		functions[i] = dlsym(HANDLE_NEXT, names[i]);
	/* musl lacks some of them. Keep the failed look-up out of the program's dlerror(). */
	if (dlerror)
		(void)dlerror();
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

/* The kernel's dup3 refuses equal numbers, for which dup2 does nothing if the descriptor is open. */
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

ssize_t next_send(int fd, const void *data, size_t bytes, int flags)
{
	ssize_t (*next)(int, const void *, size_t, int) = functions[SEND];

	return next ? next(fd, data, bytes, flags)
		    : (ssize_t)syscall(SYS_sendto, fd, data, bytes, flags, NULL, 0);
}

ssize_t next_sendto(int fd, const void *data, size_t bytes, int flags, const struct sockaddr *to,
		    socklen_t to_bytes)
{
	ssize_t (*next)(int, const void *, size_t, int, const struct sockaddr *, socklen_t) =
		functions[SENDTO];

	return next ? next(fd, data, bytes, flags, to, to_bytes)
		    : (ssize_t)syscall(SYS_sendto, fd, data, bytes, flags, to, to_bytes);
}

ssize_t next_write(int fd, const void *data, size_t bytes)
{
	ssize_t (*next)(int, const void *, size_t) = functions[WRITE];

	return next ? next(fd, data, bytes) : (ssize_t)syscall(SYS_write, fd, data, bytes);
}

ssize_t next_writev(int fd, const struct iovec *pieces, int count)
{
	ssize_t (*next)(int, const struct iovec *, int) = functions[WRITEV];

	return next ? next(fd, pieces, count) : (ssize_t)syscall(SYS_writev, fd, pieces, count);
}

ssize_t next_recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t (*next)(int, struct msghdr *, int) = functions[RECVMSG];

	return next ? next(fd, message, flags) : (ssize_t)syscall(SYS_recvmsg, fd, message, flags);
}

int next_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout)
{
	int (*next)(int, struct mmsghdr *, unsigned int, int, struct timespec *) = functions[RECVMMSG];

	return next ? next(fd, messages, count, flags, timeout)
		    : (int)syscall(SYS_recvmmsg, fd, messages, count, flags, timeout);
}

ssize_t next_recv(int fd, void *data, size_t bytes, int flags)
{
	ssize_t (*next)(int, void *, size_t, int) = functions[RECV];

	return next ? next(fd, data, bytes, flags)
		    : (ssize_t)syscall(SYS_recvfrom, fd, data, bytes, flags, NULL, NULL);
}

ssize_t next_recvfrom(int fd, void *data, size_t bytes, int flags, struct sockaddr *from,
		      socklen_t *from_bytes)
{
	ssize_t (*next)(int, void *, size_t, int, struct sockaddr *, socklen_t *) = functions[RECVFROM];

	return next ? next(fd, data, bytes, flags, from, from_bytes)
		    : (ssize_t)syscall(SYS_recvfrom, fd, data, bytes, flags, from, from_bytes);
}

ssize_t next_recv_chk(int fd, void *data, size_t bytes, size_t room_bytes, int flags)
{
	ssize_t (*next)(int, void *, size_t, size_t, int) = functions[RECV_CHK];

	return next ? next(fd, data, bytes, room_bytes, flags) : next_recv(fd, data, bytes, flags);
}

ssize_t next_recvfrom_chk(int fd, void *data, size_t bytes, size_t room_bytes, int flags,
			  struct sockaddr *from, socklen_t *from_bytes)
{
	ssize_t (*next)(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *) =
		functions[RECVFROM_CHK];

	return next ? next(fd, data, bytes, room_bytes, flags, from, from_bytes)
		    : next_recvfrom(fd, data, bytes, flags, from, from_bytes);
}

int next_shutdown(int fd, int how)
{
	int (*next)(int, int) = functions[SHUTDOWN];

	return next ? next(fd, how) : (int)syscall(SYS_shutdown, fd, how);
}

/* The kernel's size of a set of signals, which is smaller than the C library's. */
enum { SIGNALS_BYTES = 8 };

int next_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	int (*next)(struct pollfd *, nfds_t, int) = functions[POLL];
	struct timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L};

	return next ? next(fds, count, timeout_ms)
		    : (int)syscall(SYS_ppoll, fds, count, timeout_ms < 0 ? NULL : &timeout, NULL, 0);
}

int next_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals)
{
	int (*next)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *) = functions[PPOLL];
	struct timespec left;

	if (next)
		return next(fds, count, timeout, signals);
	/* The kernel writes the remaining time; the function does not. */
	if (timeout)
		left = *timeout;
	return (int)syscall(SYS_ppoll, fds, count, timeout ? &left : NULL, signals, SIGNALS_BYTES);
}

int next_poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t fds_bytes)
{
	int (*next)(struct pollfd *, nfds_t, int, size_t) = functions[POLL_CHK];

	return next ? next(fds, count, timeout_ms, fds_bytes) : next_poll(fds, count, timeout_ms);
}

int next_ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals,
		   size_t fds_bytes)
{
	int (*next)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t) =
		functions[PPOLL_CHK];

	return next ? next(fds, count, timeout, signals, fds_bytes)
		    : next_ppoll(fds, count, timeout, signals);
}

int next_select(int count, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
	int (*next)(int, fd_set *, fd_set *, fd_set *, struct timeval *) = functions[SELECT];

	return next ? next(count, in, out, except, timeout)
		    : (int)syscall(SYS_select, count, in, out, except, timeout);
}

int next_pselect(int count, fd_set *in, fd_set *out, fd_set *except, const struct timespec *timeout,
		 const sigset_t *signals)
{
	int (*next)(int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *) =
		functions[PSELECT];
	struct {
		const sigset_t *signals;
		size_t bytes;
	} mask = {signals, SIGNALS_BYTES};
	struct timespec left;

	if (next)
		return next(count, in, out, except, timeout, signals);
	if (timeout)
		left = *timeout;
	return (int)syscall(SYS_pselect6, count, in, out, except, timeout ? &left : NULL, &mask);
}

int next_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
{
	int (*next)(int, int, int, struct epoll_event *) = functions[EPOLL_CTL];

	return next ? next(epoll_fd, operation, fd, event)
		    : (int)syscall(SYS_epoll_ctl, epoll_fd, operation, fd, event);
}

int next_epoll_wait(int epoll_fd, struct epoll_event *events, int max, int timeout_ms)
{
	int (*next)(int, struct epoll_event *, int, int) = functions[EPOLL_WAIT];

	return next ? next(epoll_fd, events, max, timeout_ms)
		    : (int)syscall(SYS_epoll_pwait, epoll_fd, events, max, timeout_ms, NULL, 0);
}

int next_epoll_pwait(int epoll_fd, struct epoll_event *events, int max, int timeout_ms,
		     const sigset_t *signals)
{
	int (*next)(int, struct epoll_event *, int, int, const sigset_t *) = functions[EPOLL_PWAIT];

	return next ? next(epoll_fd, events, max, timeout_ms, signals)
		    : (int)syscall(SYS_epoll_pwait, epoll_fd, events, max, timeout_ms, signals,
				   SIGNALS_BYTES);
}

int next_epoll_pwait2(int epoll_fd, struct epoll_event *events, int max, const struct timespec *timeout,
		      const sigset_t *signals)
{
	int (*next)(int, struct epoll_event *, int, const struct timespec *, const sigset_t *) =
		functions[EPOLL_PWAIT2];

	return next ? next(epoll_fd, events, max, timeout, signals)
		    : (int)syscall(SYS_epoll_pwait2, epoll_fd, events, max, timeout, signals, SIGNALS_BYTES);
}

ssize_t next_read(int fd, void *data, size_t bytes)
{
	ssize_t (*next)(int, void *, size_t) = functions[READ];

	return next ? next(fd, data, bytes) : (ssize_t)syscall(SYS_read, fd, data, bytes);
}

ssize_t next_read_chk(int fd, void *data, size_t bytes, size_t room_bytes)
{
	ssize_t (*next)(int, void *, size_t, size_t) = functions[READ_CHK];

	return next ? next(fd, data, bytes, room_bytes) : next_read(fd, data, bytes);
}

ssize_t next_readv(int fd, const struct iovec *pieces, int count)
{
	ssize_t (*next)(int, const struct iovec *, int) = functions[READV];

	return next ? next(fd, pieces, count) : (ssize_t)syscall(SYS_readv, fd, pieces, count);
}

/* musl's request is an int: the same register. */
int next_ioctl(int fd, unsigned long request, void *argument)
{
	int (*next)(int, unsigned long, ...) = functions[IOCTL];

	return next ? next(fd, request, argument) : (int)syscall(SYS_ioctl, fd, request, argument);
}
