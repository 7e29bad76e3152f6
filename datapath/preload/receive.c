/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recvmsg, recvmmsg, recvfrom and recv: only with MSG_ERRQUEUE is there anything to do. Reports of dropped messages come from the
 * ring, oldest first; when there is none, what the kernel has in the socket's own error queue.
 */
#include "error_queue.h"
#include "flow_table.h"
#include "next.h"
#include "registration.h"
#include "session.h"

#include <linux/net_tstamp.h>

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

#define EXPORT __attribute__((visibility("default")))

static int family_of(int fd)
{
	int family = AF_INET;
	socklen_t bytes = sizeof(family);

	(void)kernel_call(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &family, &bytes);
	return family;
}

/* Bound to one by name or index, or by an address of the link. */
static uint32_t interface_of(int fd)
{
	int interface = 0;
	socklen_t bytes = sizeof(interface);

	(void)kernel_call(SYS_getsockopt, fd, SOL_SOCKET, SO_BINDTOIFINDEX, &interface, &bytes);
	return interface > 0 ? (uint32_t)interface : 0;
}

static ssize_t report_read(struct session *session, struct flow *flow, int fd, struct msghdr *message,
			   int flags)
{
	struct ktsn_ring_report report;
	struct error_report error;
	size_t copied;

	if (ktsn_ring_report_take(&session->ring, flow->number, &report))
		return -EAGAIN;
	error = (struct error_report){
		.family = family_of(fd),
		.interface = interface_of(fd),
		.code = report.code,
		.txtime_ns = report.txtime_ns,
		.bytes = report.bytes,
		.bytes_count = report.bytes_count,
	};
	copied = error_report_write(&error, message, flags);
	ktsn_ring_report_done(&session->ring, report.slot);
	waiting_slot_freed(session);
	return (ssize_t)copied;
}

/* -EAGAIN when there is no report for the socket. */
static ssize_t error_receive(int fd, struct msghdr *message, int flags)
{
	struct session *session = session_existing();
	struct flow *flow = session ? flow_acquire(fd) : NULL;
	ssize_t result = -EAGAIN;

	if (!flow)
		return -EAGAIN;
	if (flow->txtime_flags & SOF_TXTIME_REPORT_ERRORS && !flow->left_to_kernel &&
	    flow->number_session == session->number) {
		result = report_read(session, flow, fd, message, flags);
		waiting_alarm_settle(session, flow);
	}
	flow_put(flow);
	return result;
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t received = flags & MSG_ERRQUEUE ? error_receive(fd, message, flags) : -EAGAIN;

	return received >= 0 ? received : next_recvmsg(fd, message, flags);
}

/* As the kernel does it: a msghdr without control messages. */
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

/* What programs that were compiled with _FORTIFY_SOURCE call. The C library's own ends the program if more is asked
 * for than there is room. */
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

/* The error queue never blocks, so the timeout plays no part. */
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
