/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints when datagrams of sender arrive: receiver PORT COUNT. Build: cc -O2 -o receiver receiver.c
 *
 * The latency is the arrival, a time stamp of the kernel (or of the node's receive ring), less the transmit
 * time in the datagram. It is as exact as the two nodes' clocks agree.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define SECOND_NS INT64_C(1000000000)

/* CLOCK_TAI minus CLOCK_REALTIME, which time stamps have: whole seconds, 0 where nobody has set TAI. */
static int64_t tai_offset_ns(void)
{
	struct timespec tai, realtime;

	if (clock_gettime(CLOCK_REALTIME, &realtime) || clock_gettime(CLOCK_TAI, &tai))
		err(1, "read the clocks");
	return (((tai.tv_sec - realtime.tv_sec) * SECOND_NS + tai.tv_nsec - realtime.tv_nsec +
		 SECOND_NS / 2) /
		SECOND_NS) *
	       SECOND_NS;
}

/* The time stamp of a datagram on CLOCK_TAI, or 0. */
static int64_t arrival_ns(struct msghdr *message)
{
	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		struct timespec stamp;

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_TIMESTAMPNS)
			continue;
		memcpy(&stamp, CMSG_DATA(header), sizeof(stamp));
		return stamp.tv_sec * SECOND_NS + stamp.tv_nsec + tai_offset_ns();
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT}; /* and IPv4 */
	struct timeval timeout = {.tv_sec = 30};
	int count = argc == 3 ? atoi(argv[2]) : 0, on = 1, received = 0;
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (count <= 0)
		errx(2, "usage: receiver PORT COUNT");
	any.sin6_port = htons((uint16_t)atoi(argv[1]));
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) ||
	    bind(fd, (struct sockaddr *)&any, sizeof(any)))
		err(1, "open port %s", argv[1]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("listening\n");
	while (received < count) {
		_Alignas(struct cmsghdr) char control[512];
		unsigned char payload[2048];
		struct iovec data = {payload, sizeof(payload)};
		struct msghdr message = {.msg_iov = &data,
					 .msg_iovlen = 1,
					 .msg_control = control,
					 .msg_controllen = sizeof(control)};
		ssize_t bytes = recvmsg(fd, &message, 0);
		uint32_t number_be;
		uint64_t at_ns_be;
		int64_t arrived_ns;

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes < 0)
			err(1, "%d of %d datagrams received", received, count); /* EAGAIN: none for 30 s */
		if (bytes < 16 || memcmp(payload, "KTSN", 4) != 0) {
			fprintf(stderr, "receiver: a datagram of %zd bytes is not of sender\n", bytes);
			continue;
		}
		memcpy(&number_be, payload + 4, sizeof(number_be));
		memcpy(&at_ns_be, payload + 8, sizeof(at_ns_be));
		arrived_ns = arrival_ns(&message);
		received++;
		printf("%" PRIu32 ": arrived at %" PRId64 ", latency %.1f us\n", be32toh(number_be),
		       arrived_ns, (double)(arrived_ns - (int64_t)be64toh(at_ns_be)) / 1000);
	}
	return 0;
}
