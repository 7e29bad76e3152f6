/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that libktsn intercepts: the next definition in the look-up order of the program, of another
 * preload library or of libc. They are looked up once, at load time. If the C library offers no dlsym to a
 * library without dependencies (glibc before 2.34 in a program not linked with libdl), they are system calls.
 *
 * Callable from any thread. All behave as the libc functions, errno included.
 */
#ifndef KTSN_PRELOAD_NEXT_H
#define KTSN_PRELOAD_NEXT_H

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

int next_socket(int domain, int type, int protocol);
int next_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes);
int next_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes);
int next_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int next_connect(int fd, const struct sockaddr *address, socklen_t bytes);
int next_close(int fd);
int next_dup(int fd);
int next_dup2(int from, int to);
int next_dup3(int from, int to, int flags);
int next_fcntl(int fd, int command, void *argument);
int next_fcntl64(int fd, int command, void *argument);
int next_close_range(unsigned int first, unsigned int last, int flags);
pid_t next_fork(void);
ssize_t next_send(int fd, const void *data, size_t bytes, int flags);
ssize_t next_sendto(int fd, const void *data, size_t bytes, int flags, const struct sockaddr *to,
		    socklen_t to_bytes);
ssize_t next_write(int fd, const void *data, size_t bytes);
ssize_t next_writev(int fd, const struct iovec *pieces, int count);
ssize_t next_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t next_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t next_recv(int fd, void *data, size_t bytes, int flags);
ssize_t next_recvfrom(int fd, void *data, size_t bytes, int flags, struct sockaddr *from,
		      socklen_t *from_bytes);
ssize_t next_recv_chk(int fd, void *data, size_t bytes, size_t room_bytes, int flags);
ssize_t next_recvfrom_chk(int fd, void *data, size_t bytes, size_t room_bytes, int flags,
			  struct sockaddr *from, socklen_t *from_bytes);
int next_shutdown(int fd, int how);
int next_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout);
int next_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int next_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals);
int next_poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t fds_bytes);
int next_ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals,
		   size_t fds_bytes);
int next_select(int count, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout);
int next_pselect(int count, fd_set *in, fd_set *out, fd_set *except, const struct timespec *timeout,
		 const sigset_t *signals);
int next_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event);
int next_epoll_wait(int epoll_fd, struct epoll_event *events, int max, int timeout_ms);
int next_epoll_pwait(int epoll_fd, struct epoll_event *events, int max, int timeout_ms,
		     const sigset_t *signals);
int next_epoll_pwait2(int epoll_fd, struct epoll_event *events, int max, const struct timespec *timeout,
		      const sigset_t *signals);
ssize_t next_read(int fd, void *data, size_t bytes);
ssize_t next_read_chk(int fd, void *data, size_t bytes, size_t room_bytes);
ssize_t next_readv(int fd, const struct iovec *pieces, int count);
int next_ioctl(int fd, unsigned long request, void *argument);
/* syscall() with six arguments, whatever the number of the call. */
long next_syscall(long number, const long arguments[6]);
int next_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags);

#endif
