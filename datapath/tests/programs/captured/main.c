/* SPDX-License-Identifier: Apache-2.0 */
#include "captured.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/net_tstamp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_TXTIME
#define SO_TXTIME 61
#endif

#define NS_PER_S INT64_C(1000000000)

enum { LACKING = 77 }; /* exit status: the kernel lacks the method */

struct plan {
	const struct captured_method *method;
	union {
		struct sockaddr any;
		struct sockaddr_in ipv4;
		struct sockaddr_in6 ipv6;
	} to;
	socklen_t to_bytes;
	clockid_t clock;
	int count;
	int64_t lead_ns;
	int64_t cycle_ns;
};

static const char usage[] =
	"Usage: ktsn-test-captured sendmsg|io_uring ADDR PORT COUNT CLOCK LEAD_NS CYCLE_NS\n"
	"\n"
	"Sends COUNT messages to ADDR (IPv4 or IPv6) PORT, LEAD_NS ahead of transmit times that are "
	"CYCLE_NS\n"
	"apart. CLOCK is the number of a clockid_t.\n"
	"\n"
	"Exit status 77: the kernel lacks that method to send.\n";

static int fail(const char *label, int error)
{
	fprintf(stderr, "ktsn-test-captured: cannot %s: %s\n", label, strerror(error));
	return EXIT_FAILURE;
}

static int parse_address(struct plan *plan, const char *address, const char *port)
{
	uint16_t port_be = htons((uint16_t)atoi(port));

	if (inet_pton(AF_INET, address, &plan->to.ipv4.sin_addr) == 1) {
		plan->to.ipv4.sin_family = AF_INET;
		plan->to.ipv4.sin_port = port_be;
		plan->to_bytes = sizeof(plan->to.ipv4);
		return 0;
	}
	plan->to.ipv6.sin6_family = AF_INET6;
	plan->to.ipv6.sin6_port = port_be;
	plan->to_bytes = sizeof(plan->to.ipv6);
	return inet_pton(AF_INET6, address, &plan->to.ipv6.sin6_addr) == 1 ? 0 : -EINVAL;
}

static int parse(struct plan *plan, int argc, char **argv)
{
	const struct captured_method *methods[] = {&by_sendmsg, &by_io_uring};

	memset(plan, 0, sizeof(*plan));
	if (argc != 8)
		return -EINVAL;
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (strcmp(methods[i]->name, argv[1]) == 0)
			plan->method = methods[i];
	}
	plan->count = atoi(argv[4]);
	plan->clock = (clockid_t)atoi(argv[5]);
	plan->lead_ns = atoll(argv[6]);
	plan->cycle_ns = atoll(argv[7]);
	return plan->method ? parse_address(plan, argv[2], argv[3]) : -EINVAL;
}

static int open_socket(const struct plan *plan)
{
	struct sock_txtime txtime = {.clockid = plan->clock};
	int fd = socket(plan->to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_TXTIME, &txtime, sizeof(txtime)) ||
	    connect(fd, &plan->to.any, plan->to_bytes))
		return -errno;
	return fd;
}

static int64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void sleep_until(clockid_t clock, int64_t at_ns)
{
	struct timespec until = {.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S};

	while (clock_nanosleep(clock, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static void compose(struct captured_message *message, uint32_t number, int64_t txtime_ns)
{
	uint32_t number_be = htonl(number);
	uint64_t txtime_be = htobe64((uint64_t)txtime_ns);
	struct cmsghdr *control;

	memset(message, 0, sizeof(*message));
	memcpy(message->bytes, "KTSN", 4);
	memcpy(message->bytes + 4, &number_be, sizeof(number_be));
	memcpy(message->bytes + 8, &txtime_be, sizeof(txtime_be));
	message->payload = (struct iovec){message->bytes, sizeof(message->bytes)};
	message->header.msg_iov = &message->payload;
	message->header.msg_iovlen = 1;
	message->header.msg_control = message->control.bytes;
	message->header.msg_controllen = sizeof(message->control.bytes);
	control = CMSG_FIRSTHDR(&message->header);
	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SO_TXTIME; /* SCM_TXTIME is the same */
	control->cmsg_len = CMSG_LEN(sizeof(txtime_ns));
	memcpy(CMSG_DATA(control), &txtime_ns, sizeof(txtime_ns));
}

static int send_all(const struct plan *plan, int fd)
{
	int64_t first_ns = now_ns(plan->clock) + plan->lead_ns + 5000000;

	for (int i = 0; i < plan->count; i++) {
		int64_t txtime_ns = first_ns + i * plan->cycle_ns;
		struct captured_message message;
		int error;

		sleep_until(plan->clock, txtime_ns - plan->lead_ns);
		compose(&message, (uint32_t)i, txtime_ns);
		error = plan->method->send(fd, &message.header);
		if (error)
			return error;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct plan plan;
	int error;
	int fd;

	if (parse(&plan, argc, argv)) {
		fputs(usage, stderr);
		return EXIT_FAILURE;
	}
	error = plan.method->open();
	if (error == -ENOSYS)
		return LACKING;
	if (error)
		return fail("begin", -error);
	fd = open_socket(&plan);
	if (fd < 0)
		return fail("open a socket with transmit times", -fd);
	error = send_all(&plan, fd);
	return error ? fail("send", -error) : EXIT_SUCCESS;
}
