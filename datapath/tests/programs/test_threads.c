/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-test-threads: an ordinary application in which several threads send, each through a socket of its own;
 * measures how much they slow each other down. Prints the median and the 99th percentile of the duration of a
 * send call, over all threads, in ns.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/net_tstamp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 64, PAYLOAD_BYTES = 64, NS_PER_S = 1000000000, LEAD_NS = 5000000, PERIOD_NS = 1000000 };

struct sender {
	pthread_t thread;
	int fd;
	int64_t begin_ns; /* of its first period, on CLOCK_TAI */
	uint32_t messages;
	int64_t *took_ns;
	int error; /* of the first call that failed */
};

static int64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_TAI, &now);
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static int timed_socket(const struct sockaddr_in *to)
{
	const struct sock_txtime txtime = {.clockid = CLOCK_TAI};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) ||
	    setsockopt(fd, SOL_SOCKET, SO_TXTIME, &txtime, sizeof(txtime))) {
		close(fd);
		return -1;
	}
	return fd;
}

static int send_at(int fd, int64_t txtime_ns)
{
	static const char payload[PAYLOAD_BYTES];
	union {
		char bytes[CMSG_SPACE(sizeof(uint64_t))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {.iov_base = (void *)payload, .iov_len = sizeof(payload)};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_TXTIME;
	header->cmsg_len = CMSG_LEN(sizeof(uint64_t));
	memcpy(CMSG_DATA(header), &txtime_ns, sizeof(txtime_ns));
	return sendmsg(fd, &message, 0) < 0 ? errno : 0;
}

static void *send_all(void *argument)
{
	struct sender *sender = argument;

	for (uint32_t i = 0; i < sender->messages && !sender->error; i++) {
		int64_t at_ns = sender->begin_ns + (int64_t)i * PERIOD_NS, began_ns;
		struct timespec at = {at_ns / NS_PER_S, at_ns % NS_PER_S};

		(void)clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME, &at, NULL);
		began_ns = now_ns();
		sender->error = send_at(sender->fd, at_ns + LEAD_NS);
		sender->took_ns[i] = now_ns() - began_ns;
	}
	return NULL;
}

static int ascending(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int senders_run(struct sender *senders, uint32_t threads)
{
	int error = 0;

	for (uint32_t i = 0; i < threads; i++)
		if (pthread_create(&senders[i].thread, NULL, send_all, &senders[i]))
			exit(1);
	for (uint32_t i = 0; i < threads; i++) {
		pthread_join(senders[i].thread, NULL);
		error = error ? error : senders[i].error;
	}
	return error;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	static struct sender senders[THREADS_MAX];
	uint32_t threads, messages;
	int64_t *took_ns, begin_ns;
	int error;

	if (argc != 5 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1 ||
	    (threads = (uint32_t)atoi(argv[3])) - 1 >= THREADS_MAX ||
	    (messages = (uint32_t)atoi(argv[4])) == 0) {
		fprintf(stderr, "Usage: ktsn-test-threads ADDR PORT THREADS MESSAGES\n");
		return 2;
	}
	to.sin_port = htons((uint16_t)atoi(argv[2]));
	took_ns = calloc((size_t)threads * messages, sizeof(*took_ns));
	begin_ns = now_ns() + 200 * (int64_t)PERIOD_NS;
	for (uint32_t i = 0; took_ns && i < threads; i++) {
		senders[i] = (struct sender){.fd = timed_socket(&to),
					     .begin_ns = begin_ns + (int64_t)i * PERIOD_NS / threads,
					     .messages = messages,
					     .took_ns = took_ns + (size_t)i * messages};
		if (senders[i].fd < 0) {
			perror("ktsn-test-threads: cannot open a timed socket");
			return 1;
		}
	}
	error = took_ns ? senders_run(senders, threads) : ENOMEM;
	if (error) {
		fprintf(stderr, "ktsn-test-threads: cannot send: %s\n", strerror(error));
		return 1;
	}
	qsort(took_ns, (size_t)threads * messages, sizeof(*took_ns), ascending);
	printf("%" PRId64 " %" PRId64 "\n", took_ns[(size_t)threads * messages / 2],
	       took_ns[(size_t)threads * messages * 99 / 100]);
	free(took_ns);
	return 0;
}
