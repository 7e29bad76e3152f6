/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef SOL_PACKET
#define SOL_PACKET 263
#endif
#ifndef PACKET_TX_TIMESTAMP
#define PACKET_TX_TIMESTAMP 16
#endif

static void require(bool ok, const char *label)
{
	if (ok)
		return;
	fprintf(stderr, "ktsn-test-txtime: cannot %s: %s\n", label, strerror(errno));
	exit(1);
}

int64_t tai_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_TAI, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void sleep_ms(int ms)
{
	struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	while (nanosleep(&left, &left))
		;
}

static int packet_socket(void)
{
	int fd = socket(AF_PACKET, case_socket_type, 0);

	require(fd >= 0, "make a packet socket");
	require(bind(fd, &case_to.any, case_to_bytes) == 0, "bind a packet socket");
	return fd;
}

int plain_socket(void)
{
	int fd;

	if (case_to.any.sa_family == AF_PACKET)
		return packet_socket();
	fd = socket(case_to.any.sa_family, SOCK_DGRAM, 0);
	require(fd >= 0, "make a socket");
	require(connect(fd, &case_to.any, case_to_bytes) == 0, "connect a socket");
	return fd;
}

int timed_socket(uint32_t flags)
{
	struct txtime_option option = {.clockid = CLOCK_TAI, .flags = flags};
	int fd = plain_socket();

	require(setsockopt(fd, SOL_SOCKET, SO_TXTIME, &option, sizeof(option)) == 0, "set SO_TXTIME");
	return fd;
}

int reporting_socket(void)
{
	return timed_socket(REPORT_ERRORS | (case_deadline ? DEADLINE_MODE : 0));
}

void nonblocking(int fd)
{
	require(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0, "make a socket non-blocking");
}

/* A packet socket gets the destination with each message: SOCK_DGRAM in the address, SOCK_RAW at the
 * beginning of the frame. */
long send_control(int fd, const char *text, void *control, size_t control_bytes, int flags)
{
	struct iovec iov[] = {{.iov_base = case_ethernet_header, .iov_len = ETHERNET_HEADER_BYTES},
			      {.iov_base = (void *)text, .iov_len = strlen(text)}};
	struct msghdr message = {.msg_control = control};
	bool packet = case_to.any.sa_family == AF_PACKET;

	message.msg_controllen = control_bytes;
	if (packet && case_socket_type == SOCK_RAW) {
		message.msg_iov = iov;
		message.msg_iovlen = 2;
	} else {
		message.msg_iov = iov + 1;
		message.msg_iovlen = 1;
	}
	if (packet) {
		message.msg_name = &case_to;
		message.msg_namelen = case_to_bytes;
	}
	return sendmsg(fd, &message, flags);
}

long send_text(int fd, const char *text, int64_t txtime_ns, int flags)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int64_t))];
		struct cmsghdr align;
	} control = {0};

	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_TXTIME;
	control.align.cmsg_len = CMSG_LEN(sizeof(txtime_ns));
	memcpy(control.bytes + CMSG_LEN(0), &txtime_ns, sizeof(txtime_ns));
	return send_control(fd, text, control.bytes, sizeof(control.bytes), flags);
}

void send_invalid(int fd, const char *text)
{
	/* The kernel refuses it immediately as well, with ENOBUFS, if the socket has IP_RECVERR. */
	(void)send_text(fd, text, 1000000000, 0);
}

long report_take(int fd, struct report *report)
{
	static struct iovec iov;

	memset(report, 0, sizeof(*report));
	iov = (struct iovec){.iov_base = report->data, .iov_len = sizeof(report->data)};
	report->message.msg_iov = &iov;
	report->message.msg_iovlen = 1;
	report->message.msg_control = report->control;
	report->message.msg_controllen = sizeof(report->control);
	report->result = recvmsg(fd, &report->message, MSG_ERRQUEUE);
	return report->result;
}

bool report_read(int fd, struct report *report)
{
	for (int tries = 0; tries < 400; tries++) {
		if (report_take(fd, report) >= 0)
			return true;
		sleep_ms(5);
	}
	return false;
}

static bool is_error(const struct cmsghdr *header)
{
	switch (case_to.any.sa_family) {
	case AF_PACKET:
		return header->cmsg_level == SOL_PACKET && header->cmsg_type == PACKET_TX_TIMESTAMP;
	case AF_INET6:
		return header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_RECVERR;
	default:
		return header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_RECVERR;
	}
}

const struct extended_error *report_error(struct report *report)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(&report->message);

	return header && is_error(header) ? (const struct extended_error *)CMSG_DATA(header) : NULL;
}
