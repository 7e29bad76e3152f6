/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that receive, and when they block. */
#include "receive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 5, PIECE = 16, TOO_MANY = 1025 };

static void by_recv(void)
{
	int fd = looked_socket();
	char data[ROOM];

	sent(fd, "a", 3);
	for (int i = 0; i < 4; i++) {
		long received = recv(fd, data, sizeof(data), MSG_DONTWAIT);

		print_fact("recv: %s %s", result_name(received), text_of(data, received));
	}
}

static void by_read(void)
{
	int fd = looked_socket();
	char first[3], second[ROOM];
	struct iovec pieces[2] = {{first, sizeof(first)}, {second, sizeof(second)}};
	static struct iovec many[TOO_MANY];
	long received;

	sent(fd, "label", 3);
	received = read(fd, second, sizeof(second));
	print_fact("read: %s %s", result_name(received), text_of(second, received));
	received = readv(fd, pieces, 2);
	print_fact("readv: %s %s %s", result_name(received), text_of(first, 3),
		   text_of(second, received - 3));
	received = read(fd, second, 2);
	print_fact("read of less: %s %s", result_name(received), text_of(second, received));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	print_fact("read: %s", result_name(read(fd, second, sizeof(second))));
	print_fact("readv: %s", result_name(readv(fd, pieces, 2)));
	print_fact("readv of too many: %s", result_name(readv(fd, many, TOO_MANY)));
}

static void receives_earlier_datagrams(void)
{
	int fd = bound_socket();

	/* Datagrams that arrived before the first read. */
	sent(fd, "early", 2);
	print_received("first", fd, 0);
	sent(fd, "late", 2);
	print_sorted("then", fd, 3);
	print_rest("rest", fd);
}

static void blocks_until_one_comes(void)
{
	int fd = looked_socket();
	char data[ROOM];
	long received;

	sent_soon(fd, "a", 1);
	print_received("recvfrom", fd, 0);
	sent_soon(fd, "b", 1);
	received = read(fd, data, sizeof(data));
	print_fact("read: %s %s", result_name(received), text_of(data, received));
}

static void does_not_block(void)
{
	int fd = looked_socket(), on = 1, none = 0;

	print_received("MSG_DONTWAIT", fd, MSG_DONTWAIT);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	print_received("O_NONBLOCK", fd, 0);
	print_received("O_NONBLOCK and MSG_WAITALL", fd, MSG_WAITALL);
	sent(fd, "a", 1);
	print_received("O_NONBLOCK", fd, 0);
	print_received("O_NONBLOCK", fd, 0);
	require(ioctl(fd, FIONBIO, &none) == 0, "block again");
	sent_soon(fd, "b", 1);
	print_received("FIONBIO of 0", fd, 0);
	require(ioctl(fd, FIONBIO, &on) == 0, "not block");
	print_received("FIONBIO of 1", fd, 0);
	fcntl(fd, F_SETFL, 0);
	sent_soon(fd, "c", 1);
	print_received("without O_NONBLOCK", fd, 0);
}

static void peeks(void)
{
	int fd = looked_socket();

	sent(fd, "a", 2);
	print_received("peek", fd, MSG_PEEK);
	print_received("peek", fd, MSG_PEEK | MSG_DONTWAIT);
	print_received("receive", fd, 0);
	print_received("peek", fd, MSG_PEEK);
	print_received("receive", fd, MSG_DONTWAIT);
	print_received("peek", fd, MSG_PEEK | MSG_DONTWAIT);
	sent_soon(fd, "b", 1);
	print_received("peek that blocks", fd, MSG_PEEK);
	print_rest("receive", fd);
}

static void has_flags(void)
{
	static const struct {
		const char *name;
		int flags;
	} all[] = {{"none", 0},
		   {"MSG_TRUNC", MSG_TRUNC},
		   {"MSG_PEEK and MSG_TRUNC", MSG_PEEK | MSG_TRUNC},
		   {"MSG_WAITALL", MSG_WAITALL},
		   {"MSG_CMSG_CLOEXEC", MSG_CMSG_CLOEXEC},
		   {"MSG_NOSIGNAL", MSG_NOSIGNAL}};
	int fd = looked_socket();
	char data[4];

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct iovec piece = {data, sizeof(data)};
		struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
		long received;

		sent(fd, "longer", 1);
		received = recvmsg(fd, &message, all[i].flags);
		print_fact("%s: %s %s, flags %x", all[i].name, result_name(received), text_of(data, 4),
			   (unsigned int)message.msg_flags);
	}
	print_rest("rest", fd);
	print_received("MSG_ERRQUEUE", fd, MSG_ERRQUEUE);
	print_received("MSG_ERRQUEUE", fd, MSG_ERRQUEUE | MSG_DONTWAIT);
}

static int print_batch(const char *label, int fd, unsigned int count, int flags, struct timespec *timeout)
{
	char data[BATCH][PIECE];
	union socket_address from[BATCH];
	struct iovec pieces[BATCH];
	struct mmsghdr messages[BATCH];
	int received;

	memset(messages, 0, sizeof(messages));
	for (int i = 0; i < BATCH; i++) {
		pieces[i] = (struct iovec){data[i], PIECE};
		messages[i].msg_hdr = (struct msghdr){.msg_name = &from[i],
						      .msg_namelen = sizeof(from[i]),
						      .msg_iov = &pieces[i],
						      .msg_iovlen = 1};
	}
	received = recvmmsg(fd, messages, count, flags, timeout);
	print_fact("%s: %s", label, result_name(received));
	for (int i = 0; i < received; i++)
		print_fact("%s %d: %u %s from %s, flags %x", label, i, messages[i].msg_len,
			   text_of(data[i], messages[i].msg_len),
			   whose(&from[i], messages[i].msg_hdr.msg_namelen),
			   (unsigned int)messages[i].msg_hdr.msg_flags);
	return received;
}

static void by_recvmmsg(void)
{
	int fd = looked_socket();

	sent(fd, "a", 5);
	print_batch("three", fd, 3, 0, NULL);
	print_batch("MSG_WAITFORONE", fd, BATCH, MSG_WAITFORONE, NULL);
	print_batch("MSG_DONTWAIT", fd, BATCH, MSG_DONTWAIT, NULL);
	print_batch("none", fd, 0, 0, NULL);
	sent_soon(fd, "b", 2);
	print_batch("two that come", fd, 2, 0, NULL);
	sent(fd, "c", 2);
	print_batch("peek", fd, 2, MSG_PEEK, NULL);
	print_batch("MSG_TRUNC", fd, BATCH, MSG_DONTWAIT | MSG_TRUNC, NULL);
	sent_soon(fd, "d", 1);
	print_batch("MSG_WAITFORONE that blocks", fd, BATCH, MSG_WAITFORONE, NULL);
}

static void by_recvmmsg_within_a_time(void)
{
	struct timespec while_waiting = {.tv_nsec = 20 * 1000 * 1000}, long_enough = {.tv_sec = 3600},
			zero = {0}, wrong = {.tv_nsec = -1};
	int fd = looked_socket();

	/* The time is checked only after each datagram. */
	sent(fd, "a", 1);
	sent_soon(fd, "b", 1);
	print_batch("20 ms", fd, BATCH, 0, &while_waiting);
	print_fact("left: %d", while_waiting.tv_nsec > 0);
	sent(fd, "c", 2);
	print_batch("no time", fd, BATCH, 0, &zero);
	print_batch("an hour", fd, 1, 0, &long_enough);
	print_fact("left: %d", long_enough.tv_sec > 3500);
	print_batch("less than no time", fd, BATCH, MSG_DONTWAIT, &wrong);
	print_batch("nothing there", fd, BATCH, MSG_DONTWAIT, &long_enough);
	wait_at_most(fd, 30);
	print_batch("SO_RCVTIMEO", fd, BATCH, 0, NULL);
	sent(fd, "d", 2);
	print_batch("two and SO_RCVTIMEO", fd, BATCH, 0, NULL);
}

static void waits_within_a_time(void)
{
	int fd = looked_socket();
	int64_t began;
	char data[ROOM];

	wait_at_most(fd, 60);
	began = now_ms();
	print_received("nothing comes", fd, 0);
	print_fact("after at least 59 ms: %d", now_ms() - began >= 59);
	began = now_ms();
	print_fact("read: %s", result_name(read(fd, data, sizeof(data))));
	print_fact("after at least 59 ms: %d", now_ms() - began >= 59);
	wait_at_most(fd, 5000);
	sent_soon(fd, "a", 1);
	print_received("one comes", fd, 0);
	print_received("MSG_DONTWAIT", fd, MSG_DONTWAIT);
	wait_at_most(fd, 0);
	sent_soon(fd, "b", 1);
	print_received("without a limit", fd, 0);
}

static void counts_bytes(void)
{
	int fd = looked_socket(), bytes = -1;

	print_fact("FIONREAD of none: %s", result_name(ioctl(fd, FIONREAD, &bytes)));
	print_fact("bytes: %d", bytes);
	sent(fd, "abc", 2);
	ask(fd, (struct sending){.label = "long", .count = 1, .bytes = 1000});
	for (int i = 0; i < 4; i++) {
		bytes = -1;
		require(ioctl(fd, FIONREAD, &bytes) == 0, "ask how much is there");
		print_fact("bytes: %d", bytes);
		print_received("receive", fd, MSG_DONTWAIT);
	}
	ask(fd, (struct sending){.label = "empty", .count = 1, .bytes = -1});
	require(ioctl(fd, FIONREAD, &bytes) == 0, "ask how much is there");
	print_fact("bytes of an empty one: %d", bytes);
	print_rest("receive", fd);
}

const struct receive_case call_cases[] = {
	{"recv", by_recv},
	{"read", by_read},
	{"first-received-when-it-is-there", receives_earlier_datagrams},
	{"blocks-until-one-comes", blocks_until_one_comes},
	{"does-not-block", does_not_block},
	{"peeks", peeks},
	{"flags", has_flags},
	{"recvmmsg", by_recvmmsg},
	{"recvmmsg-within-a-time", by_recvmmsg_within_a_time},
	{"waits-within-a-time", waits_within_a_time},
	{"counts-bytes", counts_bytes},
	{NULL, NULL},
};
