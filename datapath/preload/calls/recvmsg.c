/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recvmsg, recvmmsg, recvfrom and recv. With MSG_ERRQUEUE reports of dropped messages come from the ring,
 * oldest first; without a report, the kernel answers from the socket's own error queue. Without it, sockets
 * that have a receive ring are read from there (receive/inbox_read.h).
 */
#include "clock.h"
#include "error_queue.h"
#include "export.h"
#include "flow_end.h"
#include "inbox_open.h"
#include "inbox_read.h"
#include "next.h"

#include <errno.h>

/* Returns -EAGAIN when there is no report for the socket. */
static ssize_t error_receive(int fd, struct msghdr *message, int flags)
{
	struct session *session = session_existing();
	struct flow *flow = session ? flow_acquire(fd) : NULL;
	ssize_t result;

	if (!flow)
		return -EAGAIN;
	result = report_receive(session, flow, fd, message, flags);
	flow_put(flow);
	return result;
}

/* Returns the acquired inbox of a socket that is to be read. */
static struct inbox *inbox_for(int fd, int flags)
{
	return flags & MSG_ERRQUEUE ? NULL : inbox_of(fd);
}

static ssize_t inbox_receive_and_put(struct inbox *inbox, int fd, struct msghdr *message, int flags)
{
	ssize_t received = inbox_receive(inbox, fd, message, flags);

	inbox_put(inbox);
	return errno_return(received);
}

/* A msghdr without control messages. */
static ssize_t inbox_receive_plain(struct inbox *inbox, int fd, const struct iovec *piece, int flags,
				   struct sockaddr *from, socklen_t *from_bytes)
{
	struct msghdr message = {.msg_iov = (struct iovec *)piece, .msg_iovlen = 1};
	ssize_t received;

	if (from && from_bytes) {
		message.msg_name = from;
		message.msg_namelen = *from_bytes;
	}
	received = inbox_receive_and_put(inbox, fd, &message, flags);
	if (received >= 0 && from && from_bytes)
		*from_bytes = message.msg_namelen;
	return received;
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t received = flags & MSG_ERRQUEUE ? error_receive(fd, message, flags) : -EAGAIN;
	struct inbox *inbox = inbox_for(fd, flags);

	if (inbox)
		return inbox_receive_and_put(inbox, fd, message, flags);
	return received >= 0 ? received : next_recvmsg(fd, message, flags);
}

/* Returns a msghdr without control messages, as the kernel does. */
static ssize_t error_receive_plain(int fd, void *data, size_t bytes, int flags, struct sockaddr *from,
				   socklen_t *from_bytes)
{
	struct iovec iov = {.iov_base = data, .iov_len = bytes};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t received = error_receive(fd, &message, flags);

	/* An address is only given for errors that came from one. */
	if (received >= 0 && from && from_bytes)
		*from_bytes = 0;
	return received;
}

EXPORT ssize_t recvfrom(int fd, void *data, size_t bytes, int flags, struct sockaddr *from,
			socklen_t *from_bytes)
{
	ssize_t received = flags & MSG_ERRQUEUE
				   ? error_receive_plain(fd, data, bytes, flags, from, from_bytes)
				   : -EAGAIN;
	struct inbox *inbox = inbox_for(fd, flags);

	if (inbox)
		return inbox_receive_plain(inbox, fd, &(struct iovec){data, bytes}, flags, from, from_bytes);
	return received >= 0 ? received : next_recvfrom(fd, data, bytes, flags, from, from_bytes);
}

EXPORT ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
	ssize_t received =
		flags & MSG_ERRQUEUE ? error_receive_plain(fd, data, bytes, flags, NULL, NULL) : -EAGAIN;
	struct inbox *inbox = inbox_for(fd, flags);

	if (inbox)
		return inbox_receive_plain(inbox, fd, &(struct iovec){data, bytes}, flags, NULL, NULL);
	return received >= 0 ? received : next_recv(fd, data, bytes, flags);
}

/* Programs that were compiled with _FORTIFY_SOURCE call these. The C library's own function ends the program
 * when `bytes` exceeds the room. */
ssize_t __recv_chk(int fd, void *data, size_t bytes, size_t room_bytes, int flags);
ssize_t __recvfrom_chk(int fd, void *data, size_t bytes, size_t room_bytes, int flags, struct sockaddr *from,
		       socklen_t *from_bytes);

EXPORT ssize_t __recv_chk(int fd, void *data, size_t bytes, size_t room_bytes, int flags)
{
	return (flags & MSG_ERRQUEUE || inboxes_wanted()) && bytes <= room_bytes
		       ? recv(fd, data, bytes, flags)
		       : next_recv_chk(fd, data, bytes, room_bytes, flags);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *data, size_t bytes, size_t room_bytes, int flags,
			      struct sockaddr *from, socklen_t *from_bytes)
{
	return (flags & MSG_ERRQUEUE || inboxes_wanted()) && bytes <= room_bytes
		       ? recvfrom(fd, data, bytes, flags, from, from_bytes)
		       : next_recvfrom_chk(fd, data, bytes, room_bytes, flags, from, from_bytes);
}

enum { MESSAGES_MAX = 1024 /* UIO_MAXIOV */ };

/* Reading the error queue never blocks, so the timeout does not matter. */
static int errors_receive(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	unsigned int received;

	if (count > MESSAGES_MAX)
		count = MESSAGES_MAX;
	for (received = 0; received < count; received++) {
		ssize_t bytes = recvmsg(fd, &messages[received].msg_hdr, flags & ~MSG_WAITFORONE);

		if (bytes < 0)
			break;
		messages[received].msg_len = (unsigned int)bytes;
	}
	return received || !count ? (int)received : -1;
}

/* Updates the rest of the timeout. Returns whether it is over. */
static bool timeout_over(struct timespec *timeout, int64_t until_ns)
{
	int64_t left_ns = until_ns - monotonic_ns();

	if (!timeout)
		return false;
	*timeout = timespec_of_ns(left_ns > 0 ? left_ns : 0);
	return left_ns <= 0;
}

/* Follows do_recvmmsg() of the kernel: the timeout is checked only after each datagram. An error after the
 * first datagram ends the call with the datagrams so far, and is kept for the next call. */
static int datagrams_receive(struct inbox *inbox, int fd, struct mmsghdr *messages, unsigned int count,
			     int flags, struct timespec *timeout)
{
	int64_t until_ns = monotonic_deadline_ns(timeout);
	unsigned int received = 0;
	ssize_t bytes = 0;

	if (timeout && (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= 1000000000))
		return -EINVAL;
	while (received < count) {
		bytes = inbox_receive(inbox, fd, &messages[received].msg_hdr, flags & ~MSG_WAITFORONE);
		if (bytes < 0)
			break;
		messages[received++].msg_len = (unsigned int)bytes;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if (timeout_over(timeout, until_ns))
			break;
	}
	if (received && bytes < 0 && bytes != -EAGAIN)
		inbox_error_keep(inbox, (int)-bytes);
	return received || bytes >= 0 ? (int)received : (int)bytes;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout)
{
	struct inbox *inbox = inbox_for(fd, flags);
	int received;

	if (inbox) {
		received = datagrams_receive(inbox, fd, messages, count < MESSAGES_MAX ? count : MESSAGES_MAX,
					     flags, timeout);
		inbox_put(inbox);
		return (int)errno_return(received);
	}
	return flags & MSG_ERRQUEUE && flow_known(fd) ? errors_receive(fd, messages, count, flags)
						      : next_recvmmsg(fd, messages, count, flags, timeout);
}
