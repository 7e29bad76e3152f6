/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a UDP datagram in each cycle: sender ADDRESS PORT COUNT [CYCLE_US]. Build: cc -O2 -o sender sender.c
 *
 *         at - LEAD_NS           at               at + cycle
 *   ---------|-------------------|-------------------|-------> CLOCK_TAI
 *            sendmsg()           the datagram leaves
 *
 * A datagram is "KTSN", its number (32 bits), and its transmit time in ns of CLOCK_TAI (64 bits), big-endian.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/errqueue.h>
#include <linux/net_tstamp.h>

#define LEAD_NS  INT64_C(1000000) /* hand a datagram over this long before its time */
#define PRIORITY 6                /* chooses the traffic class; the highest that needs no privilege */

static int64_t now_ns(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_TAI, &now))
		err(1, "read CLOCK_TAI");
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Errors that pass by themselves (docs/guide/applications.md): a later attempt succeeds. */
static int passes(int error)
{
	return error == EINTR || error == EAGAIN || error == ENOBUFS || error == ENETDOWN ||
	       error == ENETUNREACH || error == EHOSTUNREACH || error == ECONNREFUSED;
}

/* Waits until the peer has a name and a route leads to it. */
static int open_socket(const char *host, const char *port)
{
	struct sock_txtime txtime = {.clockid = CLOCK_TAI, .flags = SOF_TXTIME_REPORT_ERRORS};
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *peer;
	int error, fd, priority = PRIORITY;

	while ((error = getaddrinfo(host, port, &hints, &peer))) {
		fprintf(stderr, "sender: %s: %s; trying again\n", host, gai_strerror(error));
		sleep(1);
	}
	fd = socket(peer->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)))
		err(1, "open a socket of priority %d", priority);
	if (setsockopt(fd, SOL_SOCKET, SO_TXTIME, &txtime, sizeof(txtime)))
		err(1, "SO_TXTIME (without libktsn.so, CLOCK_TAI needs CAP_NET_ADMIN)");
	while (connect(fd, peer->ai_addr, peer->ai_addrlen)) {
		if (!passes(errno))
			err(1, "connect to %s", host);
		warn("connect to %s; trying again", host);
		sleep(1);
	}
	freeaddrinfo(peer);
	return fd;
}

/* Returns 0, or the reason why the datagram was not sent. With MSG_DONTWAIT a full buffer costs no further
 * cycles. */
static int send_at(int fd, void *payload, size_t bytes, int64_t at_ns)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(at_ns))] = {0};
	struct iovec data = {payload, bytes};
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_TXTIME;
	header->cmsg_len = CMSG_LEN(sizeof(at_ns));
	memcpy(CMSG_DATA(header), &at_ns, sizeof(at_ns));
	while (sendmsg(fd, &message, MSG_DONTWAIT) < 0) {
		if (!passes(errno))
			err(1, "sendmsg");
		if (errno != EINTR)
			return errno;
	}
	return 0;
}

/* Prints the reports of datagrams that ktsnd dropped, and returns their number. */
static int read_reports(int fd)
{
	_Alignas(struct cmsghdr) char control[512];
	struct msghdr message;
	struct sock_extended_err report;
	int count = 0;

	for (;;) {
		message = (struct msghdr){.msg_control = control, .msg_controllen = sizeof(control)};
		if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
			if (errno == EINTR)
				continue;
			if (errno != EAGAIN)
				err(1, "read the error queue");
			return count;
		}
		for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header;
		     header = CMSG_NXTHDR(&message, header)) {
			memcpy(&report, CMSG_DATA(header),
			       sizeof(report)); /* of IP_RECVERR or IPV6_RECVERR */
			if (report.ee_origin != SO_EE_ORIGIN_TXTIME)
				continue;
			printf("dropped: the datagram at %" PRIu64 " %s\n",
			       (uint64_t)report.ee_data << 32 | report.ee_info,
			       report.ee_code == SO_EE_CODE_TXTIME_MISSED ? "missed its time"
									  : "was invalid");
			count++;
		}
	}
}

int main(int argc, char **argv)
{
	int count = argc < 4 ? 0 : atoi(argv[3]), unsent = 0, late = 0, dropped = 0, error, last_error = 0,
	    fd;
	int64_t cycle_ns = argc == 5 ? atoll(argv[4]) * 1000 : 1000000, at_ns;

	if (argc < 4 || argc > 5 || count <= 0 || cycle_ns <= 0)
		errx(2, "usage: sender ADDRESS PORT COUNT [CYCLE_US]");
	fd = open_socket(argv[1], argv[2]);
	/* Whole cycles of CLOCK_TAI, as the windows of a schedule. */
	at_ns = ((now_ns() + LEAD_NS) / cycle_ns + 1) * cycle_ns;
	for (int number = 0; number < count; number++, at_ns += cycle_ns) {
		struct timespec wake = {(at_ns - LEAD_NS) / 1000000000, (at_ns - LEAD_NS) % 1000000000};
		uint32_t payload[] = {htobe32(0x4b54534e), htobe32((uint32_t)number),
				      htobe32((uint32_t)(at_ns >> 32)), htobe32((uint32_t)at_ns)};

		while ((error = clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME, &wake, NULL)))
			if (error != EINTR)
				errx(1, "sleep: %s", strerror(error));
		error = send_at(fd, payload, sizeof(payload), at_ns);
		if (error && error != last_error)
			fprintf(stderr, "sender: datagram %d was not sent: %s\n", number, strerror(error));
		last_error = error;
		unsent += error != 0;
		late += !error && now_ns() > at_ns;
		dropped += read_reports(fd);
	}
	sleep(1); /* for the last reports */
	dropped += read_reports(fd);
	printf("%d datagrams: %d not sent, %d dropped, %d handed over after their time\n", count, unsent,
	       dropped, late);
	return unsent || dropped;
}
