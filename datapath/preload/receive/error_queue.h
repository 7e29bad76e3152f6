/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a report into an application's msghdr, as the kernel's ip_recv_error() does
 * (net/ipv4/ip_sockglue.c), and ipv6_recv_error() and sock_recv_errqueue() for the other families. Pure; any
 * thread.
 */
#ifndef KTSN_PRELOAD_ERROR_QUEUE_H
#define KTSN_PRELOAD_ERROR_QUEUE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct error_report {
	int family;         /* of the socket */
	uint32_t interface; /* that it is bound to, 0: none; for IPv6 */
	uint8_t code;
	int64_t txtime_ns;
	const uint8_t *bytes;
	size_t bytes_count;
};

/* Returns the number of bytes copied to the iovec, as recvmsg does. */
size_t error_report_write(const struct error_report *report, struct msghdr *message, int flags);

#endif
