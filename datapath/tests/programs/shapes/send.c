/* SPDX-License-Identifier: Apache-2.0 */
#include "shape.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_TXTIME
#define SO_TXTIME 61
#endif
#define SCM_TXTIME_TYPE SO_TXTIME

enum { TEXT_BYTES = 128, MIXED = 4 };

/* struct sock_txtime of <linux/net_tstamp.h> */
struct txtime_option {
	int32_t clockid;
	uint32_t flags;
};

/* A message and everything that it points to. */
struct envelope {
	struct sockaddr_in to;
	char text[TEXT_BYTES];
	struct iovec iov;
	union {
		char bytes[CMSG_SPACE(sizeof(int64_t))];
		struct cmsghdr align;
	} control;
};

static atomic_int failures;

bool check(bool ok, const char *what)
{
	if (ok)
		return true;
	dprintf(STDERR_FILENO, "ktsn-test-shapes: process %d cannot %s: %s\n", (int)getpid(), what,
		strerror(errno));
	atomic_fetch_add(&failures, 1);
	return false;
}

int failure_count(void)
{
	return atomic_load(&failures);
}

int udp_socket(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	check(fd >= 0, "make a socket");
	return fd;
}

void ask_for_txtime(int fd)
{
	struct txtime_option option = {.clockid = CLOCK_TAI};

	check(setsockopt(fd, SOL_SOCKET, SO_TXTIME, &option, sizeof(option)) == 0, "set SO_TXTIME");
}

void check_asked_for_txtime(int fd)
{
	struct txtime_option option = {0};
	socklen_t bytes = sizeof(option);

	check(getsockopt(fd, SOL_SOCKET, SO_TXTIME, &option, &bytes) == 0 && option.clockid == CLOCK_TAI,
	      "find SO_TXTIME as it was set");
}

void connect_to(int fd, const struct sockaddr_in *to)
{
	check(connect(fd, (const struct sockaddr *)to, sizeof(*to)) == 0, "connect a socket");
}

int timed_socket(void)
{
	int fd = udp_socket();

	ask_for_txtime(fd);
	connect_to(fd, &arguments.to);
	return fd;
}

int untimed_socket(void)
{
	int fd = udp_socket();

	connect_to(fd, &arguments.to);
	return fd;
}

static void text_fill(struct envelope *envelope, int fd, const char *label, int64_t txtime_ns,
		      const struct sockaddr_in *to)
{
	struct sockaddr_in local = {0}, remote = to ? *to : arguments.to;
	socklen_t local_bytes = sizeof(local), remote_bytes = sizeof(remote);
	char address[INET_ADDRSTRLEN];

	getsockname(fd, (struct sockaddr *)&local, &local_bytes);
	if (!to)
		getpeername(fd, (struct sockaddr *)&remote, &remote_bytes);
	inet_ntop(AF_INET, &remote.sin_addr, address, sizeof(address));
	snprintf(envelope->text, sizeof(envelope->text), "%s %" PRId64 " %u %s", label, txtime_ns,
		 (unsigned int)ntohs(local.sin_port), address);
}

static void txtime_attach(struct msghdr *message, struct envelope *envelope, int64_t txtime_ns)
{
	struct cmsghdr *control = &envelope->control.align;

	/* The padding in musl's structures may contain anything. */
	memset(&envelope->control, 0xff, sizeof(envelope->control));
	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_TXTIME_TYPE;
	control->cmsg_len = CMSG_LEN(sizeof(txtime_ns));
	memcpy(CMSG_DATA(control), &txtime_ns, sizeof(txtime_ns));
	message->msg_control = envelope->control.bytes;
	message->msg_controllen = sizeof(envelope->control.bytes);
}

/* txtime_ns 0: none. */
static void message_fill(struct msghdr *message, struct envelope *envelope, int fd, const char *label,
			 int64_t txtime_ns, const struct sockaddr_in *to)
{
	text_fill(envelope, fd, label, txtime_ns, to);
	envelope->iov = (struct iovec){envelope->text, strlen(envelope->text)};
	memset(message, 0xff, sizeof(*message));
	message->msg_name = NULL;
	message->msg_namelen = 0;
	message->msg_iov = &envelope->iov;
	message->msg_iovlen = 1;
	message->msg_control = NULL;
	message->msg_controllen = 0;
	message->msg_flags = 0;
	if (to) {
		envelope->to = *to;
		message->msg_name = &envelope->to;
		message->msg_namelen = sizeof(envelope->to);
	}
	if (txtime_ns)
		txtime_attach(message, envelope, txtime_ns);
}

static int64_t txtime_of(int offset_ms)
{
	return arguments.base_tai_ns + (int64_t)offset_ms * 1000000;
}

void sleep_until(int offset_ms)
{
	const int64_t until_ns = txtime_of(offset_ms);
	const struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};

	while (clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static ssize_t send_one(int fd, const char *label, int64_t txtime_ns, const struct sockaddr_in *to)
{
	struct envelope envelope;
	struct msghdr message;

	message_fill(&message, &envelope, fd, label, txtime_ns, to);
	return sendmsg(fd, &message, 0);
}

void send_at_to(int fd, const char *label, int offset_ms, const struct sockaddr_in *to)
{
	check(send_one(fd, label, txtime_of(offset_ms), to) > 0, label);
}

void send_at(int fd, const char *label, int offset_ms)
{
	send_at_to(fd, label, offset_ms, NULL);
}

void send_now(int fd, const char *label)
{
	check(send_one(fd, label, 0, NULL) > 0, label);
}

void send_three(int fd, const char *label)
{
	static const int offsets_ms[] = {210, 190, 200};
	char numbered[TEXT_BYTES];

	for (int i = 0; i < 3; i++) {
		snprintf(numbered, sizeof(numbered), "%s%d", label, i + 1);
		send_at(fd, numbered, offsets_ms[i]);
	}
}

void send_mixed(int fd)
{
	static const char *const labels[MIXED] = {"timed1", "untimed1", "timed2", "untimed2"};
	static const int offsets_ms[MIXED] = {210, 0, 190, 0};
	struct envelope envelopes[MIXED];
	struct mmsghdr messages[MIXED];

	for (int i = 0; i < MIXED; i++)
		message_fill(&messages[i].msg_hdr, &envelopes[i], fd, labels[i],
			     offsets_ms[i] ? txtime_of(offsets_ms[i]) : 0, NULL);
	check(sendmmsg(fd, messages, MIXED, 0) == MIXED, "send four messages with one call");
	for (int i = 0; i < MIXED; i++)
		check(messages[i].msg_len == strlen(envelopes[i].text), "learn how much was sent");
}

void check_time_refused(int fd)
{
	ssize_t sent = send_one(fd, "must-be-refused", txtime_of(200), NULL);

	check(sent < 0 && errno == EINVAL, "be refused a transmit time");
}
