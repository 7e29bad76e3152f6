/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error queue of a socket: reports of dropped messages, and time stamps of those that have left, are read
 * from the ring and written into the application's msghdr, as ip_recv_error() of the kernel does
 * (net/ipv4/ip_sockglue.c), and ipv6_recv_error() and sock_recv_errqueue() for the other families. Callable
 * from any thread.
 */
#ifndef KTSN_PRELOAD_ERROR_QUEUE_H
#define KTSN_PRELOAD_ERROR_QUEUE_H

#include "flow.h"
#include "session.h"

#include <sys/socket.h>

struct error_report {
	int family;         /* of the socket */
	uint32_t interface; /* that the socket is bound to, 0: none; for IPv6 */
	uint8_t code;
	int64_t txtime_ns;
	/* Only of a time stamp (code KTSN_REPORT_STAMPS): SCM_TSTAMP_..., its number, CLOCK_REALTIME. */
	uint32_t stamp_kind, stamp_number;
	int64_t stamp_ns;
	const uint8_t *bytes;
	size_t bytes_count;
};

/* error_report_write writes a report into a msghdr. Returns the number of bytes copied to the iovec, as
 * recvmsg does. Pure. */
size_t error_report_write(const struct error_report *report, struct msghdr *message, int flags);

/* report_receive moves the oldest report of the flow into a msghdr. Bytes copied, or -EAGAIN when there is
 * none. */
ssize_t report_receive(struct session *session, struct flow *flow, int fd, struct msghdr *message, int flags);

#endif
