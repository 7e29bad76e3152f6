/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recvmsg, recvmmsg, recvfrom and recv: only with MSG_ERRQUEUE is there anything to do. Reports of dropped
 * messages come from the ring, oldest first; without a report, the kernel answers from the socket's own error
 * queue.
 */
#include "export.h"
#include "flow_end.h"
#include "next.h"
#include "report.h"

#include <errno.h>

/* -EAGAIN when there is no report for the socket. */
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

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t received = flags & MSG_ERRQUEUE ? error_receive(fd, message, flags) : -EAGAIN;

	return received >= 0 ? received : next_recvmsg(fd, message, flags);
}

/* As in the kernel: a msghdr without control messages. */
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

	return received >= 0 ? received : next_recvfrom(fd, data, bytes, flags, from, from_bytes);
}

EXPORT ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
	ssize_t received =
		flags & MSG_ERRQUEUE ? error_receive_plain(fd, data, bytes, flags, NULL, NULL) : -EAGAIN;

	return received >= 0 ? received : next_recv(fd, data, bytes, flags);
}

/* Programs that were compiled with _FORTIFY_SOURCE call these. The C library's own function ends the program
 * when `bytes` exceeds the room. */
ssize_t __recv_chk(int fd, void *data, size_t bytes, size_t room_bytes, int flags);
ssize_t __recvfrom_chk(int fd, void *data, size_t bytes, size_t room_bytes, int flags, struct sockaddr *from,
		       socklen_t *from_bytes);

EXPORT ssize_t __recv_chk(int fd, void *data, size_t bytes, size_t room_bytes, int flags)
{
	return flags & MSG_ERRQUEUE && bytes <= room_bytes
		       ? recv(fd, data, bytes, flags)
		       : next_recv_chk(fd, data, bytes, room_bytes, flags);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *data, size_t bytes, size_t room_bytes, int flags,
			      struct sockaddr *from, socklen_t *from_bytes)
{
	return flags & MSG_ERRQUEUE && bytes <= room_bytes
		       ? recvfrom(fd, data, bytes, flags, from, from_bytes)
		       : next_recvfrom_chk(fd, data, bytes, room_bytes, flags, from, from_bytes);
}

enum { MESSAGES_MAX = 1024 /* UIO_MAXIOV */ };

/* Reading the error queue never blocks, so the timeout plays no part. */
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

EXPORT int recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout)
{
	return flags & MSG_ERRQUEUE && flow_known(fd) ? errors_receive(fd, messages, count, flags)
						      : next_recvmmsg(fd, messages, count, flags, timeout);
}
