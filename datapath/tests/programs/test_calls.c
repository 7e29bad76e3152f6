/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-test-calls: the cost of calls to an application, in nanoseconds. Run with libktsn.so preloaded, next
 * to a ktsnd.
 *
 *   timed-send       sendmsg with a transmit time, through libktsn
 *   kernel-send      sendmsg of the same without one, through the kernel, in turns with the first
 *   NAME             the overhead of libktsn for a call on a socket that never requested SO_TXTIME: the C
 *                    library's function is called as well, in turns; "beside": while another socket of the
 *                    process has requested it
 *
 * Prints one JSON object.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_TXTIME
#define SO_TXTIME 61
#endif

enum {
	ROUNDS = 20,
	BURST = 200,
	SAMPLES = ROUNDS * BURST,
	PAYLOAD_BYTES = 64,
	SPACING_NS = 100000,
	AHEAD_NS = 20000000,
	BATCH = 2000,
	TURNS = 61,
};

static int64_t clock_read(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t percentile(int64_t *sorted, size_t count, unsigned int percent)
{
	return sorted[(count - 1) * percent / 100];
}

/* The cost of two readings of the clock, to be subtracted. */
static int64_t reading_ns(void)
{
	int64_t differences[1001];

	for (size_t i = 0; i < 1001; i++) {
		int64_t began = clock_read(CLOCK_MONOTONIC);

		differences[i] = clock_read(CLOCK_MONOTONIC) - began;
	}
	qsort(differences, 1001, sizeof(*differences), ascending);
	return differences[500];
}

struct sender {
	int fd;
	char payload[PAYLOAD_BYTES];
	struct iovec iov;
	struct msghdr message;
	union {
		char bytes[CMSG_SPACE(sizeof(int64_t))];
		struct cmsghdr align;
	} control;
};

static void sender_init(struct sender *sender, const struct sockaddr_in *to, bool timed)
{
	struct {
		int32_t clockid;
		uint32_t flags;
	} option = {CLOCK_TAI, 2};

	memset(sender, 0, sizeof(*sender));
	sender->fd = socket(AF_INET, SOCK_DGRAM, 0);
	sender->iov = (struct iovec){sender->payload, PAYLOAD_BYTES};
	sender->message = (struct msghdr){.msg_iov = &sender->iov, .msg_iovlen = 1};
	if (timed) {
		struct cmsghdr *header = &sender->control.align;

		if (setsockopt(sender->fd, SOL_SOCKET, SO_TXTIME, &option, sizeof(option)))
			exit(1);
		sender->message.msg_control = sender->control.bytes;
		sender->message.msg_controllen = sizeof(sender->control.bytes);
		*header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
					   .cmsg_type = SO_TXTIME,
					   .cmsg_len = CMSG_LEN(sizeof(int64_t))};
	}
	if (connect(sender->fd, (const struct sockaddr *)to, sizeof(*to)))
		exit(1);
}

static int64_t send_one(struct sender *sender, int64_t txtime_ns)
{
	int64_t began;

	if (sender->message.msg_control)
		memcpy(CMSG_DATA(&sender->control.align), &txtime_ns, sizeof(txtime_ns));
	began = clock_read(CLOCK_MONOTONIC);
	if (sendmsg(sender->fd, &sender->message, 0) != PAYLOAD_BYTES) {
		perror("ktsn-test-calls: sendmsg");
		exit(1);
	}
	return clock_read(CLOCK_MONOTONIC) - began;
}

static void burst(struct sender *sender, int64_t *took)
{
	int64_t first = clock_read(CLOCK_TAI) + AHEAD_NS;
	struct timespec rest = {.tv_nsec = AHEAD_NS + (int64_t)BURST * SPACING_NS + 10000000};

	for (int i = 0; i < BURST; i++)
		took[i] = send_one(sender, first + (int64_t)i * SPACING_NS);
	nanosleep(&rest, NULL);
}

static void send_report(const char *name, int64_t *took)
{
	int64_t overhead = reading_ns();

	qsort(took, SAMPLES, sizeof(*took), ascending);
	printf("\"%s\":{\"p50\":%ld,\"p90\":%ld,\"p99\":%ld}", name,
	       (long)(percentile(took, SAMPLES, 50) - overhead),
	       (long)(percentile(took, SAMPLES, 90) - overhead),
	       (long)(percentile(took, SAMPLES, 99) - overhead));
}

static void sends(const struct sockaddr_in *to)
{
	static int64_t timed_took[SAMPLES], kernel_took[SAMPLES], warm[BURST];
	struct sender timed, kernel;

	sender_init(&timed, to, true);
	sender_init(&kernel, to, false);
	burst(&timed, warm);
	burst(&kernel, warm);
	for (int i = 0; i < ROUNDS; i++) {
		burst(&timed, timed_took + (size_t)i * BURST);
		burst(&kernel, kernel_took + (size_t)i * BURST);
	}
	send_report("timed-send", timed_took);
	printf(",");
	send_report("kernel-send", kernel_took);
}

/* The descriptors of the calls below. */
static int quiet_fd, epoll_fd;

struct call {
	const char *name;
	void (*run)(void *function);
};

static void run_sendmsg(void *function)
{
	/* Longer than any datagram: refused early. */
	struct iovec iov = {.iov_len = 1 << 20};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	((ssize_t(*)(int, const struct msghdr *, int))function)(quiet_fd, &message, MSG_DONTWAIT);
}

static void run_recvmsg(void *function)
{
	char byte;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	((ssize_t(*)(int, struct msghdr *, int))function)(quiet_fd, &message, MSG_DONTWAIT);
}

static void run_sendmmsg(void *function)
{
	struct iovec iov = {.iov_len = 1 << 20};
	struct mmsghdr message = {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}};

	((int (*)(int, struct mmsghdr *, unsigned int, int))function)(quiet_fd, &message, 1, MSG_DONTWAIT);
}

static void run_recvmmsg(void *function)
{
	char byte;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct mmsghdr message = {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}};

	((int (*)(int, struct mmsghdr *, unsigned int, int, struct timespec *))function)(
		quiet_fd, &message, 1, MSG_DONTWAIT, NULL);
}

static void run_recv(void *function)
{
	char byte;

	((ssize_t(*)(int, void *, size_t, int))function)(quiet_fd, &byte, 1, MSG_DONTWAIT);
}

static void run_recvfrom(void *function)
{
	char byte;

	((ssize_t(*)(int, void *, size_t, int, struct sockaddr *, socklen_t *))function)(
		quiet_fd, &byte, 1, MSG_DONTWAIT, NULL, NULL);
}

static void run_poll(void *function)
{
	struct pollfd fds = {.fd = quiet_fd, .events = POLLIN};

	((int (*)(struct pollfd *, nfds_t, int))function)(&fds, 1, 0);
}

static void run_ppoll(void *function)
{
	struct pollfd fds = {.fd = quiet_fd, .events = POLLIN};
	struct timespec none = {0};

	((int (*)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *))function)(&fds, 1,
												&none, NULL);
}

static void run_select(void *function)
{
	struct timeval none = {0};
	fd_set in;

	FD_ZERO(&in);
	FD_SET(quiet_fd, &in);
	((int (*)(int, fd_set *, fd_set *, fd_set *, struct timeval *))function)(quiet_fd + 1, &in, NULL,
										 NULL, &none);
}

static void run_pselect(void *function)
{
	struct timespec none = {0};
	fd_set in;

	FD_ZERO(&in);
	FD_SET(quiet_fd, &in);
	((int (*)(int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *))function)(
		quiet_fd + 1, &in, NULL, NULL, &none, NULL);
}

static void run_epoll_ctl(void *function)
{
	struct epoll_event event = {.events = EPOLLIN};

	((int (*)(int, int, int, struct epoll_event *))function)(epoll_fd, EPOLL_CTL_MOD, quiet_fd, &event);
}

static void run_epoll_wait(void *function)
{
	struct epoll_event event;

	((int (*)(int, struct epoll_event *, int, int))function)(epoll_fd, &event, 1, 0);
}

static void run_getsockopt(void *function)
{
	int value;
	socklen_t bytes = sizeof(value);

	((int (*)(int, int, int, void *, socklen_t *))function)(quiet_fd, SOL_SOCKET, SO_TYPE, &value,
								&bytes);
}

static void run_setsockopt(void *function)
{
	int value = 0;

	((int (*)(int, int, int, const void *, socklen_t))function)(quiet_fd, SOL_SOCKET, SO_DEBUG, &value,
								    sizeof(value));
}

static void run_fcntl(void *function)
{
	((int (*)(int, int, ...))function)(quiet_fd, F_GETFL);
}

/* A descriptor that is not open, beyond libktsn's table. */
static void run_close(void *function)
{
	((int (*)(int))function)(1000);
}

static void run_shutdown(void *function)
{
	((int (*)(int, int))function)(quiet_fd, -1);
}

static const struct call calls[] = {
	{"sendmsg", run_sendmsg},
	{"sendmmsg", run_sendmmsg},
	{"recvmsg", run_recvmsg},
	{"recvmmsg", run_recvmmsg},
	{"recv", run_recv},
	{"recvfrom", run_recvfrom},
	{"poll", run_poll},
	{"ppoll", run_ppoll},
	{"select", run_select},
	{"pselect", run_pselect},
	{"epoll_ctl", run_epoll_ctl},
	{"epoll_wait", run_epoll_wait},
	{"getsockopt", run_getsockopt},
	{"setsockopt", run_setsockopt},
	{"fcntl", run_fcntl},
	{"close", run_close},
	{"shutdown", run_shutdown},
};

static int64_t batch(const struct call *call, void *function)
{
	int64_t began = clock_read(CLOCK_MONOTONIC);

	for (int i = 0; i < BATCH; i++)
		call->run(function);
	return clock_read(CLOCK_MONOTONIC) - began;
}

/* In turns, so that both see the same disturbances; the median of the differences. */
static double added_ns(const struct call *call, void *intercepted, void *own)
{
	int64_t differences[TURNS];

	for (int i = 0; i < TURNS; i++) {
		int64_t with = batch(call, intercepted);

		differences[i] = with - batch(call, own);
	}
	qsort(differences, TURNS, sizeof(*differences), ascending);
	/* NOLINTNEXTLINE(bugprone-integer-division): an index */
	return (double)differences[TURNS / 2] / BATCH;
}

static void calls_report(void)
{
	void *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	if (!library)
		exit(1);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		void *intercepted = dlsym(RTLD_DEFAULT, calls[i].name), *own = dlsym(library, calls[i].name);

		if (intercepted == own) {
			fprintf(stderr, "ktsn-test-calls: libktsn.so is not preloaded\n");
			exit(1);
		}
		printf("%s\"%s\":%.1f", i ? "," : "", calls[i].name, added_ns(&calls[i], intercepted, own));
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct epoll_event event = {.events = EPOLLIN};

	if (argc != 3 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1) {
		fputs("Usage: ktsn-test-calls ADDR PORT\n", stderr);
		return 2;
	}
	to.sin_port = htons((uint16_t)atoi(argv[2]));
	quiet_fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	epoll_fd = epoll_create1(0);
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, quiet_fd, &event);
	printf("{\"schema\":1,\"alone\":{");
	calls_report();
	printf("},\"sends\":{");
	sends(&to);
	printf("},\"beside\":{");
	calls_report();
	printf("}}\n");
	return 0;
}
